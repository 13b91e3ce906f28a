# SPDX-License-Identifier: MIT
"""Kernels that compute the same are told from kernels that do not, and what differs has a name and two lines."""

from __future__ import annotations

import ir_kernels
import pytest
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import partition
from ir_builder import pointer
from ir_builder import tensor
from ir_builder import tile
from ir_kernels import ZERO

from tilegym_rs_backend.tile_ir.features import CATEGORIES
from tilegym_rs_backend.tile_ir.graph import Expressions
from tilegym_rs_backend.tile_ir.graph import build
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.verdict import Sameness
from tilegym_rs_backend.tile_ir.verdict import compare

IDENTICAL, EQUIVALENT, DIFFERS = Sameness.IDENTICAL, Sameness.EQUIVALENT, Sameness.DIFFERS
WIDE = tile("f32", 32)
ALL = pointer("f32", 32)


def verdict(ours, theirs, arch="sm_90"):
    return compare(ours.finish(), theirs.finish(), arch)


def elementwise(body, *, file="kernel.rs", pointers=3, params=(), **hints):
    """``store(p[-1], body(b, x, y, ..))`` of tiles loaded through the other pointers."""
    b = Kernel(*[ALL] * pointers, *params, file=file, **hints)
    root = b("make_token", to=TOKEN)
    loaded = [b("load_ptr_tko", p, token=root, to=[WIDE, TOKEN])[0] for p in b.params[: pointers - 1]]
    b("store_ptr_tko", b.params[pointers - 1], body(b, *loaded), token=root, to=TOKEN)
    return b


def op(name, **attributes):
    return lambda b, *xs: b(name, *xs, to=WIDE, **attributes)


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


@pytest.mark.parametrize(
    ("ours", "theirs", "category", "ours_says", "theirs_says"),
    [
        (
            ir_kernels.product(),
            ir_kernels.product(m=128),
            "mma",
            "mmaf tile<64x32xf16>, tile<32x64xf16>, tile<64x64xf32>",
            "mmaf tile<128x32xf16>",
        ),
        (ir_kernels.product(), ir_kernels.product(m=128), "tile_shape", "load of tile<64x32", "load of tile<128x32"),
        (
            ir_kernels.softmax(),
            ir_kernels.softmax(128),
            "reduction",
            "reduce(maxf, axis 1, tile<1x64xf32>)",
            "reduce(maxf, axis 1, tile<1x128xf32>)",
        ),
        (
            ir_kernels.softmax(),
            ir_kernels.scaled_copy(),
            "memory_family",
            "view load (TMA), padding neg_inf",
            "pointer load (gather)",
        ),
        (ir_kernels.softmax(), ir_kernels.scaled_copy(), "control", "none of these", "for carrying 1 token"),
        (ir_kernels.softmax(), ir_kernels.scaled_copy(), "hint", "occupancy=2", "occupancy left to the compiler"),
        (ir_kernels.softmax(), ir_kernels.scaled_copy(), "arithmetic", "exp", "none of these"),
    ],
)
def test_categories_with_both_lines(ours, theirs, category, ours_says, theirs_says):
    found = compare(ours.function, theirs.function, "sm_90")
    assert found.sameness is DIFFERS
    assert list(found.categories) == sorted(found.categories, key=CATEGORIES.index)
    matching = [each for each in found.differences if each.category == category]
    assert any(ours_says in each.ours and theirs_says in each.theirs for each in matching), matching
    for each in matching:
        assert (each.our_loc is None) == (each.ours == "none of these")
        assert (each.their_loc is None) == (each.theirs == "none of these")
        assert each.to_dict()["our_line"] == (
            f"kernel.rs:{each.our_loc.line}:{each.our_loc.column}" if each.our_loc else ""
        )


def reduced(combine="addf", axis=0, kind="reduce"):
    def body(b, x):
        if kind == "scan":
            with b.region(tile("f32"), tile("f32")) as block:
                b("yield", b(combine, *block.params, to=tile("f32")))
            return b("scan", x, to=WIDE, dim=axis, reverse=False, identities=(ZERO,), regions=[block])
        total = b.reduce(combine, x, axis, tile("f32"), ZERO)
        return b("broadcast", b("reshape", total, to=tile("f32", 1)), to=WIDE)

    return elementwise(body, pointers=2)


def test_reductions():
    found = verdict(reduced(), reduced("mulf"))
    assert found.categories == ("reduction",)
    assert "reduce(addf, axis 0" in found.differences[0].ours
    assert "reduce(mulf, axis 0" in found.differences[0].theirs
    assert verdict(reduced(), reduced(kind="scan")).categories == ("reduction",)
    identity = reduced()
    identity.function.body.ops[2].attributes["identities"] = (ir_kernels.NEG_INF,)
    assert verdict(reduced(), identity).categories == ("reduction",)


def viewed(padding, **hints):
    kind = tensor("f32", 1)
    b = Kernel(pointer("f32"), I32, pointer("f32"))
    root = b("make_token", to=TOKEN)
    where = b("get_tile_block_id", to=[I32] * 3)[0]
    views = []
    for base in (b.params[0], b.params[2]):
        whole = b("make_tensor_view", base, dynamic_shape=[b.params[1]], dynamic_strides=[], to=kind)
        views.append(b("make_partition_view", whole, to=partition(kind, 32, padding=padding)))
    more = {"optimization_hints": {"sm_90": hints}} if hints else {}
    x, _ = b("load_view_tko", views[0], index=[where], token=root, to=[WIDE, TOKEN], **more)
    b("store_view_tko", x, views[1], index=[where], token=root, to=TOKEN)
    return b


def test_padding_and_hints_of_operations():
    found = verdict(viewed("zero"), viewed("neg_inf"))
    assert found.categories == ("memory_family",)
    found = verdict(viewed("zero", latency=3), viewed("zero"))
    assert found.categories == ("hint",)
    assert found.differences[0].ours == "1 x load_view_tko latency=3"
    found = verdict(viewed("zero", allow_tma=False), viewed("zero"))
    assert found.categories == ("memory_family",)
    assert "without TMA" in found.differences[0].ours
    assert compare(viewed("zero", latency=3).finish(), viewed("zero").finish(), "sm_100").sameness is IDENTICAL


def test_hints_in_force():
    ours, theirs = elementwise(op("addf"), occupancy=2), elementwise(op("addf"))
    theirs.function.hints = {"default": {"occupancy": 2}}
    assert verdict(ours, theirs).sameness is IDENTICAL
    ours, theirs = elementwise(op("addf"), num_worker_warps_per_cta=4), elementwise(op("addf"))
    [difference] = verdict(ours, theirs).differences
    assert (difference.ours, difference.theirs) == ("num_worker_warps=4", "num_worker_warps left to the compiler")


def assuming(*predicates, of="parameter"):
    b = Kernel(pointer("i32"), I32)
    root = b("make_token", to=TOKEN)
    value = b.params[1] if of == "parameter" else b("get_tile_block_id", to=[I32] * 3)[0]
    for each in predicates:
        value = b("assume", value, to=I32, predicate=each)
    b("store_ptr_tko", b.params[0], value, token=root, to=TOKEN)
    return b


def test_assumptions():
    bounded, div_by = Bounded(0, None), DivBy(16)
    assert verdict(assuming(bounded, div_by), assuming(div_by, bounded)).sameness is EQUIVALENT
    assert verdict(assuming(), assuming(DivBy(1))).sameness is EQUIVALENT
    found = verdict(assuming(div_by), assuming(DivBy(8)))
    assert found.categories == ("hint",)
    assert found.differences[0].ours == "1 x assume div_by<16> of parameter 1 (tile<i32>)"


def test_what_is_always_true_is_a_remark():
    found = verdict(assuming(Bounded(0, None), of="block"), assuming(of="block"))
    assert found.sameness is EQUIVALENT
    assert found.remarks == ("ours also states what is always true: 1 x assume bounded<0, ?>",)
    assert verdict(assuming(Bounded(1, None), of="block"), assuming(of="block")).categories == ("hint",)


@pytest.mark.parametrize(
    ("predicate", "sameness"),
    [
        (Bounded(0, None), EQUIVALENT),
        (Bounded(0, 9), EQUIVALENT),
        (Bounded(0, 8), DIFFERS),
        (Bounded(1, None), DIFFERS),
    ],
)
def test_what_a_loops_index_is_known_to_be(predicate, sameness):
    def kernel(assumed):
        b = Kernel(pointer("i32"))
        root = b("make_token", to=TOKEN)
        with b.region(I32) as body:
            index = body.params[0]
            if assumed:
                index = b("assume", index, to=I32, predicate=predicate)
            b("store_ptr_tko", b.params[0], index, token=root, to=TOKEN)
            b("continue")
        b("for", b.constant(0), b.constant(10), b.constant(1), init_values=[], regions=[body])
        return b

    assert verdict(kernel(True), kernel(False)).sameness is sameness


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
