# SPDX-License-Identifier: MIT
"""Pairs of kernels that differ in one thing: what changes the meaning DIFFERS, what does not is EQUIVALENT."""

from __future__ import annotations

import pytest
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_kernels import product
from ir_kernels import scaled_copy
from ir_kernels import softmax
from ir_pairs import DIFFERS
from ir_pairs import EQUIVALENT
from ir_pairs import IDENTICAL
from ir_pairs import WIDE
from ir_pairs import elementwise
from ir_pairs import op
from ir_writer import write_module

from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.printer import show
from tilegym_rs_backend.tile_ir.reader import read_module
from tilegym_rs_backend.tile_ir.side_by_side import side_by_side
from tilegym_rs_backend.tile_ir.verdict import compare

F32, I1 = tile("f32"), tile("i1")
MUST = {"comparison_predicate": "less_than"}


def swapped(name, **attributes):
    return elementwise(lambda b, x, y: b(name, y, x, to=WIDE, **attributes))


def uneven(name, turned=False):
    """An operation whose operands cannot change places by their parameters doing so."""

    def body(b, x, y):
        other = b("negf", y, to=WIDE)
        return b(name, *((other, x) if turned else (x, other)), to=WIDE)

    return elementwise(body)


def plain(name, **attributes):
    return elementwise(op(name, **attributes))


def integers(name, **attributes):
    """``store(p, name(a, b))`` of two parameters."""
    b = Kernel(pointer("i32"), I32, I32)
    b("store_ptr_tko", b.params[0], b(name, *b.params[1:], to=I32, **attributes), to=TOKEN)
    return b


def compared(predicate, mirror=False, signedness="signed"):
    b = Kernel(pointer("i1"), I32, I32)
    sides = b.params[:0:-1] if mirror else b.params[1:]
    found = b("cmpi", *sides, to=I1, comparison_predicate=predicate, signedness=signedness)
    b("store_ptr_tko", b.params[0], found, to=TOKEN)
    return b


def leaving(how, first=False):
    """A store, before or after which a block may leave: by `how`, None: it may not."""
    b = Kernel(pointer("f32"), I1)
    one = b.constant(1.0, F32)
    if first:
        b("store_ptr_tko", b.params[0], one, to=TOKEN)
    if how == "if":
        with b.region() as yes:
            b("return")
        with b.region() as no:
            b("yield")
        b("if", b.params[1], regions=[yes, no])
    elif how == "for":
        with b.region(I32) as body:
            b("return")
        b("for", b.constant(0), b.constant(5), b.constant(1), init_values=[], regions=[body])
    if not first:
        b("store_ptr_tko", b.params[0], one, to=TOKEN)
    return b


def loop_that_breaks(store_first):
    b = Kernel(pointer("f32"), I1)
    with b.region() as body:
        for step in ("store", "break") if store_first else ("break", "store"):
            if step == "store":
                b("store_ptr_tko", b.params[0], b.constant(1.0, F32), to=TOKEN)
                continue
            with b.region() as yes:
                b("break")
            with b.region() as no:
                b("yield")
            b("if", b.params[1], regions=[yes, no])
        b("continue")
    b("loop", init_values=[], regions=[body])
    return b


def memory(separate):
    """A store and a load: of one piece of memory, or of two."""
    b = Kernel(pointer("f32"))
    here = b("alloca", to=pointer("f32"), num_elem=1, alignment=16)
    there = b("alloca", to=pointer("f32"), num_elem=1, alignment=16) if separate else here
    stored = b("store_ptr_tko", here, b.constant(1.0, F32), to=TOKEN)
    value, done = b("load_ptr_tko", there, token=stored, to=[F32, TOKEN])
    b("store_ptr_tko", b.params[0], value, token=done, to=TOKEN)
    return b


def tickets(same):
    """The difference of what two atomic increments found, or of one with itself."""
    b = Kernel(pointer("i32"), pointer("i32"))
    found = [b("atomic_rmw_tko", b.params[0], b.constant(1), to=[I32, TOKEN], mode="add")[0] for _ in range(2)]
    b("store_ptr_tko", b.params[1], b("subi", found[0], found[0 if same else 1], to=I32, overflow="none"), to=TOKEN)
    return b


def stores(count, chained=True):
    b = Kernel(pointer("f32"))
    token = b("make_token", to=TOKEN)
    for _ in range(count):
        after = b("store_ptr_tko", b.params[0], b.constant(1.0, F32), token=token, to=TOKEN)
        token = after if chained else token
    return b


def truth(data):
    b = Kernel(pointer("i1", 8))
    b("store_ptr_tko", b.params[0], b("constant", to=tile("i1", 8), value=data), to=TOKEN)
    return b


def counting(unsigned=False, step=1, dead=False, upper=8):
    b = Kernel(pointer("i32"))
    with b.region(I32, I32) as body:
        if dead:
            b("muli", body.params[1], body.params[1], to=I32, overflow="none")
        b("continue", b("addi", body.params[1], body.params[0], to=I32, overflow="none"))
    bounds = [b.constant(0), b.constant(upper), b.constant(step)]
    total = b("for", *bounds, init_values=[bounds[0]], to=[I32], regions=[body], unsigned_cmp=unsigned)
    b("store_ptr_tko", b.params[0], total, to=TOKEN)
    return b


def assumed(predicate):
    b = Kernel(pointer("i32"), I32)
    x = b.params[1] if predicate is None else b("assume", b.params[1], to=I32, predicate=predicate)
    b("store_ptr_tko", b.params[0], x, to=TOKEN)
    return b


def constants(first, second, kind=F32):
    b = Kernel(pointer(kind.element.name))
    b("store_ptr_tko", b.params[0], b("constant", to=kind, value=first), to=TOKEN)
    other = Kernel(pointer(kind.element.name))
    other("store_ptr_tko", other.params[0], other("constant", to=kind, value=second), to=TOKEN)
    return b, other


ROUNDS_DOWN = {"rounding_mode": "negative_inf"}
PAIRS = {
    "the same": (softmax(), softmax(), IDENTICAL),
    "another name": (softmax(), softmax(name="other"), IDENTICAL),
    "addf the other way round": (plain("addf"), swapped("addf"), EQUIVALENT),
    "maxf the other way round": (plain("maxf"), swapped("maxf"), EQUIVALENT),
    "subf the other way round": (uneven("subf"), uneven("subf", turned=True), DIFFERS),
    "divf the other way round": (uneven("divf"), uneven("divf", turned=True), DIFFERS),
    "remf the other way round": (uneven("remf"), uneven("remf", turned=True), DIFFERS),
    "pow the other way round": (uneven("pow"), uneven("pow", turned=True), DIFFERS),
    "atan2 the other way round": (uneven("atan2"), uneven("atan2", turned=True), DIFFERS),
    "another rounding": (plain("addf"), plain("addf", **ROUNDS_DOWN), DIFFERS),
    "flush to zero": (plain("mulf"), plain("mulf", flush_to_zero=True), DIFFERS),
    "NaN propagated": (plain("maxf"), plain("maxf", propagate_nan=True), DIFFERS),
    "maxf for minf": (plain("maxf"), plain("minf"), DIFFERS),
    "signedness of maxi": (integers("maxi"), integers("maxi", signedness="unsigned"), DIFFERS),
    "signedness of divi": (integers("divi"), integers("divi", signedness="unsigned"), DIFFERS),
    "rounding of divi": (integers("divi"), integers("divi", rounding="negative_inf"), DIFFERS),
    "signedness of shri": (integers("shri"), integers("shri", signedness="unsigned"), DIFFERS),
    "overflow promised": (integers("addi", overflow="none"), integers("addi", overflow="nsw"), DIFFERS),
    "less mirrored": (compared("less_than"), compared("greater_than", mirror=True), EQUIVALENT),
    "less for greater": (compared("less_than"), compared("greater_than"), DIFFERS),
    "less for less or equal": (compared("less_than"), compared("less_than_or_equal"), DIFFERS),
    "equal the other way round": (compared("equal"), compared("equal", mirror=True), EQUIVALENT),
    "less signed and unsigned": (compared("less_than"), compared("less_than", signedness="unsigned"), DIFFERS),
    "an early return": (leaving("if"), leaving(None), DIFFERS),
    "a return out of a loop": (leaving("for"), leaving(None), DIFFERS),
    "a return before or after a store": (leaving("if"), leaving("if", first=True), DIFFERS),
    "a break before or after a store": (loop_that_breaks(True), loop_that_breaks(False), DIFFERS),
    "memory of one's own": (memory(True), memory(False), DIFFERS),
    "atomics find different values": (tickets(True), tickets(False), DIFFERS),
    "two stores for one": (stores(2), stores(1), DIFFERS),
    "stores without order": (stores(2), stores(2, chained=False), DIFFERS),
    "a carried store token": (scaled_copy(), scaled_copy(carry_store=False), DIFFERS),
    "loop-invariant position": (scaled_copy(), scaled_copy(hoist=True), EQUIVALENT),
    "commuted address": (scaled_copy(), scaled_copy(swap=True), EQUIVALENT),
    "another factor": (scaled_copy(2.0), scaled_copy(2.5), DIFFERS),
    "another hint": (product(occupancy=1), product(occupancy=2), DIFFERS),
    "a hint more": (product(), product(num_ctas=2), DIFFERS),
    "another tile": (product(64, 64, 32), product(64, 64, 64), DIFFERS),
    "unsigned loop": (counting(), counting(unsigned=True), DIFFERS),
    "another step": (counting(), counting(step=2), DIFFERS),
    "another bound": (counting(), counting(upper=9), DIFFERS),
    "dead code": (counting(), counting(dead=True), EQUIVALENT),
    "an assumption": (assumed(DivBy(16)), assumed(None), DIFFERS),
    "another assumption": (assumed(DivBy(16)), assumed(DivBy(8)), DIFFERS),
    "another bound assumed": (assumed(Bounded(0, 5)), assumed(Bounded(0, 6)), DIFFERS),
    "an assumption that says nothing": (assumed(DivBy(1)), assumed(None), EQUIVALENT),
    "zeros of two signs": (*constants(bytes(4), b"\0\0\0\x80"), DIFFERS),
    "NaNs of two payloads": (*constants(b"\1\0\xc0\x7f", b"\2\0\xc0\x7f"), DIFFERS),
    "a splat spelled out": (*constants(b"\0\0\x80\x3f", b"\0\0\x80\x3f" * 4, tile("f32", 4)), EQUIVALENT),
    "truth values for all and for the first": (truth(b"\xff"), truth(b"\1"), DIFFERS),
}


@pytest.mark.parametrize(("ours", "theirs", "expected"), PAIRS.values(), ids=PAIRS)
def test_verdict(ours, theirs, expected):
    sides = [read_module(write_module(each.module())).functions[0] for each in (ours, theirs)]
    for a, b in (sides, sides[::-1]):
        verdict = compare(a, b, "sm_90")
        assert verdict.sameness is expected, str(verdict)
        assert bool(verdict.differences) == (expected is DIFFERS)
        assert not verdict.reordered
    assert compare(sides[0], sides[0], "sm_90").sameness is IDENTICAL


@pytest.mark.parametrize("opcode", ["subf", "divf", "pow"])
def test_parameters_that_change_places_are_named(opcode):
    """x - y of (x, y) is y - x of (y, x): the verdict says so, because only a launch can tell which was meant."""
    verdict = compare(plain(opcode).finish(), swapped(opcode).finish(), "sm_90")
    assert (verdict.sameness, verdict.reordered) == (EQUIVALENT, (1, 0, 2))
    assert "parameters in another order" in str(verdict)


def test_truth_values_in_two_spellings():
    """Four of eight bits count in a tile of four."""
    pair = constants(b"\xff", b"\x0f", tile("i1", 4))
    assert compare(*(each.finish() for each in pair), "sm_90").sameness is EQUIVALENT


@pytest.mark.parametrize("opcode", ["assume", "reshape", "addi"])
def test_a_long_chain_is_no_deep_one(opcode):
    b = Kernel(pointer("i32"), I32)
    x = b.params[1]
    for _ in range(3000):
        more = {"predicate": DivBy(16)} if opcode == "assume" else {"overflow": "none"} if opcode == "addi" else {}
        x = b(opcode, *([x, x] if opcode == "addi" else [x]), to=I32, **more)
    b("store_ptr_tko", b.params[0], x, to=TOKEN)
    long = read_module(write_module(b.module())).functions[0]
    assert compare(long, softmax().finish(), "sm_90").sameness is DIFFERS
    assert compare(softmax().finish(), long, "sm_90").sameness is DIFFERS


def test_names_do_nothing_to_a_terminal():
    b = Kernel(name="k\x1b[2J\nentry @fake() {")
    b("assert", b.constant(1, I1), message="\x1b]0;title\x07")
    b("get_global", to=pointer("i32"), name="g" * 100_000)
    b.file = "a\x1b[31m.rs"
    module = read_module(write_module(b.module()))
    function = module.functions[0]
    for text in (show(module), side_by_side(function, function), str(compare(function, softmax().finish(), "sm_90"))):
        assert all(line.isprintable() for line in text.splitlines())
        assert len(text) < 5000
    assert len(show(module).splitlines()) == 7
