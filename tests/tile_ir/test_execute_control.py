# SPDX-License-Identifier: MIT
"""Control flow, reductions, scans, shapes and matrices of the executor, uniform over the blocks and not."""

from __future__ import annotations

import pytest
import torch
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import TORCH
from ir_run import lanes
from ir_run import load
from ir_run import run
from ir_run import store

from tilegym_rs_backend.tile_ir.model import FloatAttr
from tilegym_rs_backend.tile_ir.types import ScalarType

ZERO = FloatAttr(0, ScalarType("f32"))
I1 = tile("i1")


def per_block(body, blocks, element="i32"):
    """Return what body(kernel, block id) gives in each of the blocks."""
    out = torch.zeros(blocks, dtype=TORCH[element])
    b = Kernel(pointer(element))
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    value = body(b, block)
    b("store_ptr_tko", b("offset", b.params[0], block, to=pointer(element)), value, to=TOKEN)
    run(b, out, grid=(blocks, 1, 1))
    single = torch.zeros(blocks, dtype=TORCH[element])
    run(_again(body, element), single, grid=(blocks, 1, 1), batch=1)
    assert torch.equal(out, single)
    return out.tolist()


def _again(body, element):
    b = Kernel(pointer(element))
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    b("store_ptr_tko", b("offset", b.params[0], block, to=pointer(element)), body(b, block), to=TOKEN)
    return b


def compare(b, x, y, predicate):
    return b("cmpi", x, y, to=I1, comparison_predicate=predicate)


def test_if_of_blocks_that_part():
    def body(b, block):
        odd = compare(b, b("andi", block, b.constant(1), to=I32), b.constant(1), "equal")
        with b.region() as then:
            b("yield", b("muli", block, b.constant(10), to=I32))
        with b.region() as other:
            b("yield", b.constant(-1))
        return b("if", odd, to=I32, regions=[then, other])

    assert per_block(body, 7) == [-1, 10, -1, 30, -1, 50, -1]


@pytest.mark.parametrize("step", [1, 3])
def test_for_with_a_trip_count_of_its_own(step):
    def body(b, block):
        with b.region(I32, I32) as turn:
            b("continue", b("addi", turn.params[1], turn.params[0], to=I32))
        return b("for", block, b.constant(9), b.constant(step), b.constant(0), to=[I32], regions=[turn])

    assert per_block(body, 12) == [sum(range(i, 9, step)) for i in range(12)]


def test_loop_with_break_and_continue_inside_ifs():
    """Collatz steps, counting odd numbers only; blocks leave the loop at different times."""

    def body(b, block):
        one, zero, two, three = (b.constant(i) for i in (1, 0, 2, 3))
        with b.region(I32, I32) as turn:
            n, count = turn.params
            with b.region() as then:
                b("break", n, count)
            with b.region() as other:
                b("yield")
            b("if", compare(b, n, one, "less_than_or_equal"), regions=[then, other])
            odd = compare(b, b("andi", n, one, to=I32), one, "equal")
            with b.region() as then:
                grown = b("addi", b("muli", n, three, to=I32), one, to=I32)
                b("continue", grown, b("addi", count, one, to=I32))
            with b.region() as other:
                b("yield", b("divi", n, two, to=I32))
            half = b("if", odd, to=I32, regions=[then, other])
            b("continue", half, count)
        start = b("addi", block, one, to=I32)
        return b("loop", start, zero, to=[I32, I32], regions=[turn])[1]

    def collatz(n):
        count = 0
        while n > 1:
            n, count = (3 * n + 1, count + 1) if n % 2 else (n // 2, count)
        return count

    assert per_block(body, 20) == [collatz(n) for n in range(1, 21)]


def test_nested_loops_of_different_lengths():
    def body(b, block):
        one, zero = b.constant(1), b.constant(0)
        with b.region(I32, I32) as outer:
            with b.region(I32, I32) as inner:
                b("continue", b("addi", inner.params[1], block, to=I32))
            b("continue", b("for", zero, outer.params[0], one, outer.params[1], to=[I32], regions=[inner]))
        return b("for", zero, block, one, zero, to=[I32], regions=[outer])

    assert per_block(body, 9) == [i * sum(range(i)) for i in range(9)]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(
    ("combine", "function"),
    [("addf", torch.sum), ("maxf", torch.amax), ("minf", torch.amin), ("mulf", torch.prod)],
)
def test_reduce(axis, combine, function):
    shape = [4, 8, 16]
    x = torch.randn(*shape)
    left = [extent for i, extent in enumerate(shape) if i != axis]
    n = left[0] * left[1]
    out = torch.zeros(n)
    b = Kernel(pointer("f32"), pointer("f32"))
    value = b("reshape", load(b, b.params[0], "f32", 512), to=tile("f32", *shape))
    value = b.reduce(combine, value, axis, tile("f32", *left), ZERO)
    store(b, b.params[1], b("reshape", value, to=tile("f32", n)), "f32", n)
    run(b, x, out)
    torch.testing.assert_close(out.reshape(left), function(x, axis), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axis", [0, 1])
def test_reduce_of_two_values_is_an_argmax(axis):
    x = torch.randn(8, 16)
    n = x.shape[1 - axis]
    out = torch.zeros(n, dtype=torch.int32)
    b = Kernel(pointer("f32"), pointer("i32"))
    value = b("reshape", load(b, b.params[0], "f32", 128), to=tile("f32", 8, 16))
    line = b("iota", to=tile("i32", x.shape[axis]))
    column = [8, 1] if axis == 0 else [1, 16]
    index = b("broadcast", b("reshape", line, to=tile("i32", *column)), to=tile("i32", 8, 16))
    scalar, number = tile("f32"), tile("i32")
    with b.region(scalar, scalar, number, number) as block:
        new, old, new_at, old_at = block.params
        greater = b("cmpf", new, old, to=I1, comparison_predicate="greater_than", comparison_ordering="ordered")
        b("yield", b("select", greater, new, old, to=scalar), b("select", greater, new_at, old_at, to=number))
    kinds = [tile("f32", n), tile("i32", n)]
    _, at = b("reduce", value, index, to=kinds, dim=axis, identities=(ZERO, ZERO), regions=[block])
    store(b, b.params[1], at, "i32", n)
    run(b, x, out)
    assert out.tolist() == x.argmax(axis).tolist()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("simple", [True, False])
def test_scan(axis, reverse, simple):
    x = torch.randn(8, 16)
    out = torch.zeros(8, 16)
    b = Kernel(pointer("f32"), pointer("f32"))
    value = b("reshape", load(b, b.params[0], "f32", 128), to=tile("f32", 8, 16))
    scalar = tile("f32")
    with b.region(scalar, scalar) as block:
        new, old = block.params
        if not simple:
            old = b("addf", old, b.constant(0.0, scalar), to=scalar)
        b("yield", b("addf", new, old, to=scalar))
    total = b("scan", value, to=tile("f32", 8, 16), dim=axis, reverse=reverse, identities=(ZERO,), regions=[block])
    store(b, b.params[1], b("reshape", total, to=tile("f32", 128)), "f32", 128)
    run(b, x, out)
    expected = x.flip(axis).cumsum(axis).flip(axis) if reverse else x.cumsum(axis)
    torch.testing.assert_close(out, expected)


def test_scan_is_in_order():
    """A body that does not commute: what came before stays, unless the new element is positive."""
    x = torch.tensor([1, -2, 3, -4, -5, 6, -7, 8], dtype=torch.int32)
    out = torch.zeros(8, dtype=torch.int32)
    b = Kernel(pointer("i32"), pointer("i32"))
    with b.region(I32, I32) as block:
        new, old = block.params
        positive = compare(b, new, b.constant(0), "greater_than")
        b("yield", b("select", positive, new, old, to=I32))
    value = load(b, b.params[0], "i32", 8)
    total = b("scan", value, to=tile("i32", 8), dim=0, reverse=False, identities=(ZERO,), regions=[block])
    store(b, b.params[1], total, "i32", 8)
    run(b, x, out)
    assert out.tolist() == [1, 1, 3, 3, 3, 6, 6, 8]


@pytest.mark.parametrize(("element", "accumulator"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f32"), ("f16", "f16")])
def test_mmaf(element, accumulator):
    a, b_, c = torch.randn(16, 32), torch.randn(32, 8), torch.randn(16, 8)
    a, b_, c = a.to(TORCH[element]), b_.to(TORCH[element]), c.to(TORCH[accumulator])
    out = torch.zeros(16, 8, dtype=TORCH[accumulator])
    b = Kernel(pointer(element), pointer(element), pointer(accumulator), pointer(accumulator))
    x = b("reshape", load(b, b.params[0], element, 512), to=tile(element, 16, 32))
    y = b("reshape", load(b, b.params[1], element, 256), to=tile(element, 32, 8))
    z = b("reshape", load(b, b.params[2], accumulator, 128), to=tile(accumulator, 16, 8))
    total = b("mmaf", x, y, z, to=tile(accumulator, 16, 8))
    store(b, b.params[3], b("reshape", total, to=tile(accumulator, 128)), accumulator, 128)
    run(b, a, b_, c, out)
    expected = (a.double() @ b_.double() + c.double()).to(TORCH[accumulator])
    torch.testing.assert_close(out, expected, rtol=2e-3 if accumulator == "f16" else 1e-5, atol=1e-5)


@pytest.mark.parametrize("signs", [("signed", "signed"), ("unsigned", "signed"), ("unsigned", "unsigned")])
def test_mmai(signs):
    a = torch.randint(-128, 128, (8, 16), dtype=torch.int8)
    b_ = torch.randint(-128, 128, (16, 8), dtype=torch.int8)
    out = torch.zeros(8, 8, dtype=torch.int32)
    b = Kernel(pointer("i8"), pointer("i8"), pointer("i32"))
    x = b("reshape", load(b, b.params[0], "i8", 128), to=tile("i8", 8, 16))
    y = b("reshape", load(b, b.params[1], "i8", 128), to=tile("i8", 16, 8))
    total = b(
        "mmai",
        x,
        y,
        b.constant(1, tile("i32", 8, 8)),
        to=tile("i32", 8, 8),
        signedness_lhs=signs[0],
        signedness_rhs=signs[1],
    )
    store(b, b.params[2], b("reshape", total, to=tile("i32", 64)), "i32", 64)
    run(b, a, b_, out)
    wide = [v.long() if sign == "signed" else v.long() % 256 for v, sign in zip((a, b_), signs, strict=False)]
    assert torch.equal(out.long(), wide[0] @ wide[1] + 1)


def test_permute_cat_extract_insert():
    x = torch.arange(32, dtype=torch.int32)
    out = torch.zeros(32, dtype=torch.int32)
    b = Kernel(pointer("i32"), pointer("i32"))
    value = b("reshape", load(b, b.params[0], "i32", 32), to=tile("i32", 4, 8))
    zero, one = b.constant(0), b.constant(1)
    left = b("extract", value, zero, zero, to=tile("i32", 4, 4))
    right = b("extract", value, zero, one, to=tile("i32", 4, 4))
    turned = b("permute", left, to=tile("i32", 4, 4), permutation=(1, 0))
    both = b("cat", right, turned, to=tile("i32", 4, 8), dim=1)
    corner = b.constant(-1, tile("i32", 2, 2))
    both = b("insert", corner, both, one, one, to=tile("i32", 4, 8))
    store(b, b.params[1], b("reshape", both, to=tile("i32", 32)), "i32", 32)
    run(b, x, out)
    m = x.reshape(4, 8)
    expected = torch.cat((m[:, 4:], m[:, :4].t()), 1)
    expected[2:, 2:4] = -1
    assert torch.equal(out.reshape(4, 8), expected)


def test_pack_and_unpack():
    x = torch.tensor([0x12, 0x34, 0x56, 0x78] * 4, dtype=torch.int8)
    out = torch.zeros(4, dtype=torch.int32)
    back = torch.zeros(16, dtype=torch.int8)
    b = Kernel(pointer("i8"), pointer("i32"), pointer("i8"))
    words = b("unpack", load(b, b.params[0], "i8", 16), to=tile("i32", 4))
    store(b, b.params[1], words, "i32", 4)
    store(b, b.params[2], b("pack", words, to=tile("i8", 16)), "i8", 16)
    run(b, x, out, back)
    assert out.tolist() == [0x78563412] * 4
    assert torch.equal(back, x)


def test_print_and_statistics():
    shown: list[str] = []
    b = Kernel(pointer("f32"))
    x = load(b, b.params[0], "f32", 2)
    b("print_tko", x, str="x = %f", to=[TOKEN])
    y = b("divf", x, x, to=tile("f32", 2), rounding_mode="approx")
    b("store_ptr_tko", lanes(b, b.params[0], "f32", 2), y, to=TOKEN)
    statistics = run(b, torch.tensor([1.0, 2.0]), printer=shown.append)
    assert shown == ["x = [1.0, 2.0]"]
    assert statistics.approximate == ("divf approx",)
    assert (statistics.blocks, statistics.loads, statistics.stores) == (1, 1, 1)
