# SPDX-License-Identifier: MIT
"""Control flow that does not fit together is refused, with the operation's offset."""

from __future__ import annotations

import pytest
from ir_builder import I32
from ir_builder import Kernel
from ir_builder import tile
from ir_kernels import ZERO
from ir_writer import write_module

from tilegym_rs_backend.tile_ir.reader import TileIrError
from tilegym_rs_backend.tile_ir.reader import read_module

ROW = tile("f32", 8)


def refused(kernel, message):
    data = write_module(kernel.module())
    read_module(data, check=False)
    with pytest.raises(TileIrError, match=message) as caught:
        read_module(data)
    assert 12 < caught.value.offset < len(data)


def loop(body_values, *, kind="for", end="continue", params=(I32,), results=(I32,), extra=0):
    b = Kernel(I32, ROW)
    x, row = b.params
    values = {"x": x, "row": row}
    with b.region(*([I32] if kind == "for" else []), *params) as body:
        for _ in range(extra):
            b(end, *(values[v] for v in body_values))
        b(end, *(values[v] for v in body_values))
    bounds = [x] * 3 if kind == "for" else []
    b(kind, *bounds, init_values=[x], to=list(results), regions=[body])
    return b


def test_loops_that_fit():
    read_module(write_module(loop(["x"]).module()))
    read_module(write_module(loop(["x"], kind="loop", end="break").module()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"body_values": []}, r"continued values and parameters of continue do not fit: \(\) and \(tile<i32>\)"),
        ({"body_values": ["row"]}, "continued values and parameters"),
        ({"body_values": ["x", "x"]}, "continued values and parameters"),
        ({"body_values": ["x"], "params": ()}, "starting values and parameters of for"),
        ({"body_values": ["x"], "results": ()}, "starting values and results of for"),
        ({"body_values": ["x"], "results": (ROW,)}, "starting values and results of for"),
        ({"body_values": ["x"], "end": "break"}, "a block of for ends with break"),
        ({"body_values": ["x"], "end": "yield"}, "a block of for ends with yield"),
        ({"body_values": ["x"], "extra": 1}, "continue in the middle of a block"),
        ({"body_values": ["row"], "kind": "loop", "end": "break"}, "values of break and results"),
    ],
)
def test_loops(arguments, message):
    refused(loop(**arguments), message)


def conditional(ends, results=()):
    b = Kernel(tile("i1"), I32)
    blocks = []
    for end in ends:
        with b.region() as block:
            if end:
                b(end, *([b.params[1]] if results or end == "break" else []))
        blocks.append(block)
    b("if", b.params[0], to=list(results), regions=blocks)
    return b


@pytest.mark.parametrize(
    ("ends", "results", "message"),
    [
        (("yield", "break"), (), "break outside a loop"),
        (("yield", "continue"), (), "continue outside a loop"),
        (("yield", ""), (), "a block of if ends without an operation"),
        (("yield", "yield"), (ROW,), "yielded values and results of yield do not fit"),
        (("yield", "yield"), (I32, I32), "yielded values and results of yield do not fit"),
    ],
)
def test_branches(ends, results, message):
    refused(conditional(ends, results), message)


def reduction(*, yielded=1, params=2, identities=(ZERO,), dim=0, nested=False, of=ROW):
    b = Kernel(of)
    scalar = tile("f32")
    with b.region(*[scalar] * params) as body:
        if nested:
            with b.region(scalar, scalar) as inner:
                b("yield", inner.params[0])
            b("reduce", b.params[0], to=scalar, dim=0, identities=identities, regions=[inner])
        b("yield", *body.params[:yielded])
    b("reduce", b.params[0], to=scalar, dim=dim, identities=identities, regions=[body])
    return b


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"yielded": 0}, "reduce of 1 yields 0"),
        ({"yielded": 2}, "reduce of 1 yields 2"),
        ({"params": 1}, "reduce of 1 tiles has 1 results, 1 parameters"),
        ({"identities": ()}, "other identities"),
        ({"dim": 1}, "along axis 1 of"),
        ({"nested": True}, "reduce inside a reduce"),
    ],
)
def test_reductions(arguments, message):
    refused(reduction(**arguments), message)


def test_a_function_without_return():
    b = Kernel(I32)
    b("negi", b.params[0], to=I32, overflow="none")
    module = b.module()
    del module.functions[0].body.ops[-1]
    with pytest.raises(TileIrError, match="a block of function ends with negi, not with return"):
        read_module(write_module(module))
    del module.functions[0].body.ops[:]
    with pytest.raises(TileIrError, match="ends without an operation"):
        read_module(write_module(module))
