# SPDX-License-Identifier: MIT
"""Reading bytecode: what was written comes back, in every format; damage is named with its offset."""

from __future__ import annotations

import ir_kernels
import pytest
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tensor
from ir_builder import tile
from ir_writer import write_module

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tile_ir import model
from tilegym_rs_backend.tile_ir import types
from tilegym_rs_backend.tile_ir.reader import MAX_DEPTH
from tilegym_rs_backend.tile_ir.reader import TileIrError
from tilegym_rs_backend.tile_ir.reader import read_module
from tilegym_rs_backend.tile_ir.types import ScalarType

FORMATS = [(13, 1), (13, 2), (13, 3), (13, 4)]
KERNELS = [ir_kernels.softmax, ir_kernels.scaled_copy, ir_kernels.product]


def shape_of(function):
    """A function as plain data: values numbered in order of definition."""
    numbers = {value: i for i, value in enumerate(function.params)}
    found = []

    def visit(block):
        for op in block.ops:
            operands = {name: [numbers[v] for v in op.group(name)] for name in op.segments}
            regions = []
            for region in op.regions:
                numbers.update((value, len(numbers) + i) for i, value in enumerate(region.params))
                regions.append([value.type for value in region.params])
            found.append((op.opcode, operands, dict(op.attributes), regions, op.loc))
            for region in op.regions:
                visit(region)
            numbers.update((value, len(numbers) + i) for i, value in enumerate(op.results))
            found.append([value.type for value in op.results])

    visit(function.body)
    return function.name, function.type, function.hints, function.is_entry, function.loc, found


@pytest.mark.parametrize("version", FORMATS, ids=str)
@pytest.mark.parametrize("build", KERNELS)
def test_what_was_written_comes_back(build, version):
    module = build().module(version)
    again = read_module(write_module(module))
    assert again.version == version
    assert shape_of(again.entry()) == shape_of(module.entry())


def test_values_know_their_owners():
    function = read_module(write_module(ir_kernels.scaled_copy().module())).entry("copy")
    loop = next(op for _, op in function.body.walk() if op.opcode == "for")
    assert function.params[2].owner is function.body
    assert loop.operand("upper_bound") is function.params[2]
    assert loop.group("init_values")[0].owner.opcode == "make_token"
    body = loop.regions[0]
    assert [value.owner for value in body.params] == [body, body]
    assert loop.result.owner is loop


def test_walk_gives_depths_in_file_order():
    function = ir_kernels.scaled_copy().module().entry()
    seen = [(depth, op.opcode) for depth, op in function.body.walk()]
    assert seen[0] == (0, "make_token")
    assert (1, "continue") in seen
    assert seen[-1] == (0, "return")


def test_source_lines_with_inlined_calls():
    b = Kernel(I32)
    b("negi", b.params[0], to=I32, overflow="none")
    outer = model.SourceLoc("main.rs", 7, 3, "main")
    b.block.ops[0].loc = model.SourceLoc("helper.rs", 2, 5, "helper", outer)
    op = read_module(write_module(b.module())).entry().body.ops[0]
    assert str(op.loc) == "helper.rs:2:5"
    assert op.loc.caller == outer


def test_all_types_come_back():
    view = types.TensorViewType((4, None, 16), (None, 16, 1), ScalarType("bf16"))
    kinds = [
        *(tile(name, 4, 2) for name in types._BITS),
        pointer("f16", 8),
        TOKEN,
        view,
        types.PartitionViewType((2, 4, 8), view, (2, 0, 1), "neg_inf"),
        types.PartitionViewType((2, 4, 8), view, (0, 1, 2)),
        types.StridedViewType((2, 4, 8), (1, 2, 3), view, (0, 1, 2), "nan"),
        types.GatherScatterViewType((2, 4, 8), view, 1, "neg_zero"),
    ]
    again = read_module(write_module(Kernel(*kinds).module())).entry()
    assert [value.type for value in again.params] == kinds


@pytest.mark.parametrize("version", FORMATS, ids=str)
def test_padding_of_a_partition_view_in_every_format(version):
    view = types.PartitionViewType((2, 2), tensor("f32", 2), (1, 0), "pos_inf")
    assert read_module(write_module(Kernel(view).module(version))).entry().params[0].type == view


def test_globals_and_producer():
    module = ir_kernels.softmax().module()
    module.globals.append(model.Global("table", tile("i32", 2), bytes(8), 16, True, "private"))
    module.producer = "tests"
    again = read_module(write_module(module))
    [found] = again.globals
    assert (found.name, found.data, found.alignment, found.constant) == ("table", bytes(8), 16, True)
    assert (found.visibility, again.producer) == ("private", "tests")


def test_attributes_that_carry_their_kind():
    f16, i8 = ScalarType("f16"), ScalarType("i8")
    b = Kernel(tile("i32", 8))
    x = b.params[0]
    predicates = [model.DivBy(16, 4, 0), model.DivBy(3), model.Bounded(-5, None), model.SameElements((2,))]
    for each in predicates:
        b("assume", x, to=x.type, predicate=each)
    identities = (model.FloatAttr(0xFC00, f16), model.IntegerAttr(0xFF, i8), True, "text", f16, (1 == 1,))
    with b.region() as body:
        b("yield")
    b("scan", x, to=x.type, dim=0, reverse=True, identities=identities, regions=[body])
    ops = read_module(write_module(b.module()), check=False).entry().body.ops
    assert [op.attributes["predicate"] for op in ops[:4]] == predicates
    assert ops[4].attributes == {"dim": 0, "reverse": True, "identities": identities}
    assert identities[1].value == -1


def test_tf32_bits_of_both_writers():
    tf32 = ScalarType("tf32")
    b = Kernel(tile("tf32", 8))
    for bits in (0x3F800000, 0x3F800000 >> 13):
        with b.region() as body:
            b("yield")
        identity = (model.FloatAttr(bits, tf32),)
        b("reduce", b.params[0], to=tile("tf32"), dim=0, identities=identity, regions=[body])
    ops = read_module(write_module(b.module()), check=False).entry().body.ops
    assert [op.attributes["identities"][0].bits for op in ops[:2]] == [0x3F800000] * 2


def nested(depth):
    b = Kernel(tile("i1"))
    blocks = []
    for _ in range(depth):
        blocks.append(b.region())
        blocks[-1].__enter__()
    for block in reversed(blocks):
        b("yield")
        inner = b.block
        block.__exit__(None, None, None)
        with b.region() as other:
            b("yield")
        b("if", b.params[0], regions=[inner, other])
    return write_module(b.module())


def test_nesting_is_limited():
    assert read_module(nested(MAX_DEPTH)).entry().body.ops[0].opcode == "if"
    with pytest.raises(TileIrError, match="nest deeper than 64"):
        read_module(nested(MAX_DEPTH + 1))


GOOD = write_module(ir_kernels.scaled_copy().module())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "does not start with"),
        (b"\x7fELF" + bytes(60), "does not start with"),
        (GOOD[:9], "cut off inside the header"),
        (GOOD[:8] + bytes([13, 5]) + GOOD[10:], r"format 13\.5 is not read here, only 13\.1 to 13\.4"),
        (GOOD[:8] + bytes([13, 0]) + GOOD[10:], r"format 13\.0 is not read"),
        (GOOD[:8] + bytes([14, 1]) + GOOD[10:], r"format 14\.1 is not read"),
        (GOOD[:10] + b"\x01" + GOOD[11:], "preview features"),
        (GOOD[:12] + b"\0", "no function section"),
        (GOOD[:12], "a byte was expected"),
        (GOOD[:-1], "a byte was expected"),
        (GOOD + b"x", "left over after the end mark"),
        (GOOD[:12] + b"\x09" + GOOD[13:], "section 9 is unknown"),
        (GOOD[:12] + b"\x01\xff\xff\xff\xff\x0f", "bytes were expected"),
        (GOOD[:12] + b"\x01" + b"\xff" * 11, "a number of more than 10 bytes"),
        (GOOD[:12] + b"\x81\x00\x03", "section alignment of 3"),
        (GOOD[:12] + b"\x01\x00\x01\x00", "a second string section"),
    ],
)
def test_damage_is_named(data, message):
    with pytest.raises(TileIrError, match=message) as caught:
        read_module(data)
    assert isinstance(caught.value, TilegymRsError)
    assert 0 <= caught.value.offset <= len(data)
    assert f"byte {caught.value.offset}:" in str(caught.value)


def test_a_huge_count_allocates_nothing():
    # A table of 2^28 strings in a section of six bytes.
    head = GOOD[:12] + b"\x01\x06\xff\xff\xff\x7f\x00\x00\x02\x01\x00\x00"
    with pytest.raises(TileIrError, match="strings are announced"):
        read_module(head)


def test_operands_must_be_visible():
    b = Kernel(I32)
    with b.region(I32) as body:
        inner = b("negi", body.params[0], to=I32, overflow="none")
        b("continue")
    b("for", *b.params * 3, init_values=[], regions=[body])
    b("negi", inner, to=I32, overflow="none")
    with pytest.raises(TileIrError, match=r"uses value 2, 1 are visible"):
        read_module(write_module(b.module()), check=False)


def test_entry_by_name():
    module = model.Module((13, 4), [ir_kernels.softmax().finish(), ir_kernels.product().finish()])
    again = read_module(write_module(module))
    assert again.entry("product").name == "product"
    with pytest.raises(KeyError, match="softmax"):
        again.entry()
