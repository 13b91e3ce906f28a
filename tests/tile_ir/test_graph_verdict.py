# SPDX-License-Identifier: MIT
"""Where kernels differ: categories, hints, assumptions, each with both source lines."""

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
from ir_pairs import DIFFERS
from ir_pairs import EQUIVALENT
from ir_pairs import IDENTICAL
from ir_pairs import WIDE
from ir_pairs import elementwise
from ir_pairs import op
from ir_pairs import verdict

from tilegym_rs_backend.tile_ir.features import CATEGORIES
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.verdict import compare


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
