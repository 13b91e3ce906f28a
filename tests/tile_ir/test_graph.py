# SPDX-License-Identifier: MIT
"""Kernels that compute the same are told from kernels that do not."""

from __future__ import annotations

import ir_kernels
import pytest
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_pairs import ALL
from ir_pairs import DIFFERS
from ir_pairs import EQUIVALENT
from ir_pairs import IDENTICAL
from ir_pairs import WIDE
from ir_pairs import elementwise
from ir_pairs import op
from ir_pairs import verdict

from tilegym_rs_backend.tile_ir.graph import Expressions
from tilegym_rs_backend.tile_ir.graph import build


@pytest.mark.parametrize("build_", [ir_kernels.softmax, ir_kernels.scaled_copy, ir_kernels.product])
def test_a_kernel_is_identical_to_itself(build_):
    assert verdict(build_(), build_(name="other")).sameness is IDENTICAL


def test_names_and_lines_do_not_count():
    ours = elementwise(op("addf"), file="a.rs")
    theirs = elementwise(op("addf"), file="b.py")
    assert verdict(ours, theirs).sameness is IDENTICAL


@pytest.mark.parametrize("name", ["addf", "mulf", "maxf", "minf"])
def test_commutative_order(name):
    swapped = elementwise(lambda b, x, y: b(name, y, x, to=WIDE))
    assert verdict(elementwise(op(name)), swapped).sameness is EQUIVALENT


def test_order_that_counts():
    swapped = elementwise(lambda b, x, y: b("subf", y, x, to=WIDE))
    found = verdict(elementwise(op("subf")), swapped)
    # Which of two pointers is which is judged by use; the kernels are the same up to that.
    assert found.reordered == (1, 0, 2) if found.sameness is EQUIVALENT else found.categories == ("arithmetic",)
    one = elementwise(lambda b, x: b("subf", x, b("exp", x, to=WIDE, rounding_mode="full"), to=WIDE), pointers=2)
    other = elementwise(lambda b, x: b("subf", b("exp", x, to=WIDE, rounding_mode="full"), x, to=WIDE), pointers=2)
    found = verdict(one, other)
    assert found.sameness is DIFFERS
    [difference] = found.differences
    assert "subf(load_ptr_tko, exp)" in difference.ours
    assert "subf(exp, load_ptr_tko)" in difference.theirs


def comparison(predicate, swap):
    def body(b, x, y):
        which = b("cmpf", *((y, x) if swap else (x, y)), to=tile("i1", 32), comparison_predicate=predicate)
        return b("select", which, x, y, to=WIDE)

    return elementwise(body)


def test_a_mirrored_comparison():
    assert verdict(comparison("less_than", False), comparison("greater_than", True)).sameness is EQUIVALENT
    assert verdict(comparison("equal", False), comparison("equal", True)).sameness is EQUIVALENT
    assert verdict(comparison("less_than", False), comparison("less_than_or_equal", False)).sameness is DIFFERS


def test_constants_by_value():
    def filled(b, x):
        return b("mulf", x, b.constant(2.0, WIDE), to=WIDE)

    def spread(b, x):
        two = b("reshape", b.constant(2.0, tile("f32")), to=tile("f32", 1))
        return b("mulf", x, b("broadcast", two, to=WIDE), to=WIDE)

    def dense(b, x):
        import struct

        return b("mulf", x, b("constant", to=WIDE, value=struct.pack("<32f", *[2.0] * 32)), to=WIDE)

    def other(b, x):
        return b("mulf", x, b.constant(3.0, WIDE), to=WIDE)

    ours = lambda: elementwise(filled, pointers=2)  # noqa: E731
    assert verdict(ours(), elementwise(spread, pointers=2)).sameness is EQUIVALENT
    assert verdict(ours(), elementwise(dense, pointers=2)).sameness is EQUIVALENT
    found = verdict(ours(), elementwise(other, pointers=2))
    assert found.categories == ("arithmetic",)
    assert "constant(2.0)" in found.differences[0].ours
    assert "constant(3.0)" in found.differences[0].theirs


def test_dead_code():
    def body(b, x, y):
        b("exp", b("mulf", x, b.constant(5.0, WIDE), to=WIDE), to=WIDE, rounding_mode="full")
        with b.region(I32, WIDE) as inner:
            b("continue", b("addf", inner.params[1], x, to=WIDE))
        zero, one = b.constant(0), b.constant(1)
        b("for", zero, one, one, init_values=[x], to=[WIDE], regions=[inner])
        return b("addf", x, y, to=WIDE)

    assert verdict(elementwise(op("addf")), elementwise(body)).sameness is EQUIVALENT


def test_a_repeated_expression_counts_once():
    def body(b, x):
        return b("addf", *(b("absf", x, to=WIDE) for _ in range(2)), to=WIDE)

    def once(b, x):
        y = b("absf", x, to=WIDE)
        return b("addf", y, y, to=WIDE)

    assert verdict(elementwise(body, pointers=2), elementwise(once, pointers=2)).sameness is EQUIVALENT


def test_token_roots():
    b = Kernel(*[ALL] * 3)
    for source in b.params[:2]:
        own = b("make_token", to=TOKEN)
        x, _ = b("load_ptr_tko", source, token=own, to=[WIDE, TOKEN])
        b.params.append(x)
    both = b("join_tokens", *(b("make_token", to=TOKEN) for _ in range(2)), to=TOKEN)
    x, y = b.params[3:]
    del b.params[3:]
    b("store_ptr_tko", b.params[2], b("addf", x, y, to=WIDE), token=both, to=TOKEN)
    assert verdict(elementwise(op("addf")), b).sameness is EQUIVALENT


def two_stores(ordered, token_first=False):
    b = Kernel(ALL, ALL)
    root = b("make_token", to=TOKEN)
    x = b.constant(1.0, WIDE)
    first = b("store_ptr_tko", b.params[0], x, token=root, to=TOKEN)
    after = b("join_tokens", *((root, first) if token_first else (first, root)), to=TOKEN)
    b("store_ptr_tko", b.params[1], x, token=after if ordered else root, to=TOKEN)
    return b


def test_the_order_of_stores_counts():
    assert verdict(two_stores(True), two_stores(True, token_first=True)).sameness is EQUIVALENT
    found = verdict(two_stores(True), two_stores(False))
    assert found.categories == ("memory_family",)
    assert "store_ptr_tko" in str(found.differences[0])


def test_loop_invariant_position_and_operand_order():
    for theirs in (ir_kernels.scaled_copy(hoist=True), ir_kernels.scaled_copy(hoist=True, swap=True)):
        assert verdict(ir_kernels.scaled_copy(), theirs).sameness is EQUIVALENT


def test_a_carried_store_token_counts():
    found = verdict(ir_kernels.scaled_copy(), ir_kernels.scaled_copy(carry_store=False))
    assert found.categories == ("control",)
    [difference] = found.differences
    assert (difference.ours, difference.theirs) == ("1 x for carrying 1 token", "1 x for")
    assert difference.our_loc.line > 1
    assert difference.their_loc.line > 1


def accumulate(order, *, extra=False, second="mulf", start=0.0):
    """A loop that carries a sum and a product of one loaded tile, in either order of slots."""
    b = Kernel(ALL, ALL, ALL, I32)
    root = b("make_token", to=TOKEN)
    x, _ = b("load_ptr_tko", b.params[0], token=root, to=[WIDE, TOKEN])
    kinds = [WIDE, WIDE] + ([WIDE] if extra else [])
    with b.region(I32, *kinds) as body:
        slots = dict(zip(order, body.params[1:], strict=False))
        values = {"sum": b("addf", slots["sum"], x, to=WIDE), "product": b(second, slots["product"], x, to=WIDE)}
        # A value that is handed on unchanged, and that nobody needs.
        b("continue", *(values[name] for name in order), *body.params[3:])
    zero, one = b.constant(0), b.constant(1)
    starts = [b.constant(start, WIDE)] * len(kinds)
    results = b("for", zero, b.params[3], one, init_values=starts, to=kinds, regions=[body])
    for pointer_, name in zip(b.params[1:3], ("sum", "product"), strict=True):
        b("store_ptr_tko", pointer_, results[order.index(name)], token=root, to=TOKEN)
    return b


def test_the_order_of_carried_values_does_not_count():
    ours = lambda: accumulate(("sum", "product"))  # noqa: E731
    assert verdict(ours(), accumulate(("product", "sum"))).sameness is EQUIVALENT
    assert verdict(ours(), accumulate(("sum", "product"), extra=True)).sameness is EQUIVALENT
    assert verdict(ours(), accumulate(("sum", "product"), start=1.0)).sameness is DIFFERS
    assert verdict(ours(), accumulate(("product", "sum"), second="maxf")).categories == ("arithmetic",)


def branch(taken, *, condition="less_than", leave=False):
    b = Kernel(ALL, I32)
    root = b("make_token", to=TOKEN)
    which = b("cmpi", b.params[1], b.constant(3), to=tile("i1"), comparison_predicate=condition)
    blocks = []
    for value in taken:
        with b.region() as block:
            if value is not None:
                b("store_ptr_tko", b.params[0], b.constant(value, WIDE), token=root, to=TOKEN)
            b("return" if leave and value is None else "yield")
        blocks.append(block)
    b("if", which, regions=blocks)
    return b


def test_branches():
    assert verdict(branch((1.0, 2.0)), branch((1.0, 2.0))).sameness is IDENTICAL
    assert verdict(branch((1.0, 2.0)), branch((2.0, 1.0))).sameness is DIFFERS
    assert verdict(branch((1.0, None)), branch((1.0, None), condition="equal")).sameness is DIFFERS


def search(limit, *, first=True):
    """A ``loop`` that leaves by ``break`` from inside an ``if``."""
    b = Kernel(pointer("i32"), I32)
    root = b("make_token", to=TOKEN)
    with b.region(I32) as body:
        done = b("cmpi", body.params[0], b.constant(limit), to=tile("i1"), comparison_predicate="greater_than")
        with b.region() as leave:
            b("break", body.params[0])
        with b.region() as stay:
            b("yield")
        b("if", done, regions=[leave, stay] if first else [stay, leave])
        b("continue", b("addi", body.params[0], b.params[1], to=I32))
    found = b("loop", init_values=[b.constant(0)], to=[I32], regions=[body])
    b("store_ptr_tko", b.params[0], found, token=root, to=TOKEN)
    return b


def test_ways_out_of_a_loop():
    assert verdict(search(10), search(10)).sameness is IDENTICAL
    assert verdict(search(10), search(11)).sameness is DIFFERS
    assert verdict(search(10), search(10, first=False)).sameness is DIFFERS
    graph = build(search(10).finish(), Expressions())
    assert [op.opcode for op in graph.nodes.values()].count("if") == 1


def test_parameters_in_another_order():
    ours = ir_kernels.scaled_copy()
    theirs = ir_kernels.scaled_copy()
    body = theirs.function.body
    body.params[:] = [body.params[2], body.params[1], body.params[0]]
    theirs.function.type = type(theirs.function.type)(tuple(v.type for v in body.params), ())
    found = verdict(ours, theirs)
    assert (found.sameness, found.reordered) == (EQUIVALENT, (2, 1, 0))
    assert "parameters in another order" in str(found)


def test_a_parameter_that_only_one_side_has():
    found = verdict(elementwise(op("addf"), params=(I32,)), elementwise(op("addf")))
    assert found.sameness is EQUIVALENT


def test_nested_loops():
    def kernel(inner_first):
        b = Kernel(ALL, I32, I32)
        root = b("make_token", to=TOKEN)
        zero, one = b.constant(0), b.constant(1)
        bounds = b.params[1:] if inner_first else b.params[:0:-1]
        with b.region(I32, WIDE) as outer:
            with b.region(I32, WIDE) as inner:
                b("continue", b("addf", inner.params[1], inner.params[1], to=WIDE))
            x = b("for", zero, bounds[0], one, init_values=[outer.params[1]], to=[WIDE], regions=[inner])
            b("continue", b("exp2", x, to=WIDE))
        x = b("for", zero, bounds[1], one, init_values=[b.constant(1.0, WIDE)], to=[WIDE], regions=[outer])
        b("store_ptr_tko", b.params[0], x, token=root, to=TOKEN)
        return b

    assert verdict(kernel(True), kernel(True)).sameness is IDENTICAL
    # Swapping the bounds is the same kernel with its parameters swapped.
    found = verdict(kernel(True), kernel(False))
    assert (found.sameness, found.reordered) in ((EQUIVALENT, (0, 2, 1)), (DIFFERS, ()))
