# SPDX-License-Identifier: MIT
"""Constants that one side computes from constants, and what says nothing, are no difference; what is one stays one."""

from __future__ import annotations

import struct

import pytest
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_pairs import ALL
from ir_pairs import DIFFERS
from ir_pairs import EQUIVALENT
from ir_pairs import WIDE
from ir_pairs import elementwise
from ir_pairs import verdict

from tilegym_rs_backend.tile_ir.constants import folded
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.verdict import compare

NUMBERS = tile("i32", 32)


def word(value):
    return struct.unpack("<i", struct.pack("<f", value))[0]


def plus(make):
    return elementwise(lambda b, x, y: b("addf", b("mulf", x, make(b), to=WIDE), y, to=WIDE))


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (lambda b: b("bitcast", b.constant(word(0.5), NUMBERS), to=WIDE), True),
        (lambda b: b("bitcast", b.constant(word(0.25), NUMBERS), to=WIDE), False),
        (lambda b: b("negf", b.constant(-0.5, WIDE), to=WIDE), True),
        (lambda b: b("negf", b.constant(0.5, WIDE), to=WIDE), False),
    ],
)
def test_a_constant_made_of_a_constant(made, same):
    found = verdict(plus(made), plus(lambda b: b.constant(0.5, WIDE)))
    assert found.sameness is (EQUIVALENT if same else DIFFERS)


def test_a_bitcast_to_its_own_type_is_nothing():
    changed = elementwise(lambda b, x, y: b("addf", b("bitcast", x, to=WIDE), y, to=WIDE))
    assert verdict(changed, elementwise(lambda b, x, y: b("addf", x, y, to=WIDE))).sameness is EQUIVALENT


def element(name):
    return TileType((4,), ScalarType(name))


@pytest.mark.parametrize(
    ("opcode", "operands", "kind", "result"),
    [
        ("subi", [b"\0\0", b"\3\0"], "i16", b"\xfd\xff"),
        ("subi", [b"\x80", b"\1"], "i8", b"\x7f"),
        ("negf", [b"\0\0"], "f16", b"\0\x80"),
        ("bitcast", [b"\1\2"], "f16", b"\1\2"),
        ("bitcast", [b"\1\2"], "f32", None),
        ("subi", [b"\0\0", None], "i16", None),
        ("subi", [b"\0"], "i8", None),
        ("bitcast", [b"\1"], "i1", None),
        ("addi", [b"\0", b"\1"], "i8", None),
    ],
)
def test_folding(opcode, operands, kind, result):
    assert folded(opcode, operands, element(kind)) == result


def gathers(mask, padding):
    """A load that names a padding, with or without a mask."""
    b = Kernel(ALL, ALL, tile("i1", 32))
    root = b("make_token", to=TOKEN)
    named = {"mask": b.params[2]} if mask else {}
    named |= {"padding_value": b.constant(padding, WIDE)} if padding is not None else {}
    loaded, _ = b("load_ptr_tko", b.params[0], token=root, to=[WIDE, TOKEN], **named)
    b("store_ptr_tko", b.params[1], loaded, token=root, to=TOKEN)
    return b


def test_a_padding_without_a_mask_says_nothing():
    assert verdict(gathers(False, 0.0), gathers(False, None)).sameness is EQUIVALENT
    assert verdict(gathers(False, 0.0), gathers(False, 1.0)).sameness is EQUIVALENT
    assert verdict(gathers(True, 0.0), gathers(True, 1.0)).sameness is DIFFERS
    assert verdict(gathers(True, 0.0), gathers(True, None)).sameness is DIFFERS


def swapped(first, second):
    b = Kernel(ALL, ALL, pointer("f32", 32))
    root = b("make_token", to=TOKEN)
    loaded = [b("load_ptr_tko", b.params[i], token=root, to=[WIDE, TOKEN])[0] for i in (0, 1)]
    b("store_ptr_tko", b.params[2], b("subf", loaded[first], loaded[second], to=WIDE), token=root, to=TOKEN)
    return b.finish()


def test_parameters_in_another_order_are_a_difference_where_the_order_is_known():
    ours, theirs = swapped(0, 1), swapped(1, 0)
    assert compare(ours, theirs, "sm_90").reordered
    found = compare(ours, theirs, "sm_90", ordered=True)
    assert found.sameness is DIFFERS
    assert not found.reordered
