# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest
from listings import POINTERS
from listings import PRODUCT
from listings import VIEW

from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.tile_ir.compare import CATEGORIES
from tilegym_rs_backend.tile_ir.compare import compare_kernels
from tilegym_rs_backend.tile_ir.listing import parse_hints
from tilegym_rs_backend.tile_ir.listing import parse_listing


def only(text):
    [kernel] = parse_listing(text)
    return kernel


def test_entry_arguments_and_hints_per_target():
    kernel = only(VIEW)
    assert kernel.name == "scale_rows"
    assert kernel.arguments == ("tile<ptr<f16>>", "tile<i32>", "tile<f32>")
    assert kernel.hints("sm_90") == {"num_ctas": 2, "occupancy": 2, "num_worker_warps": 4}
    assert kernel.hints("sm_100") == {"num_ctas": 2, "occupancy": 3}
    assert kernel.operation_hints("sm_90") == {"load_view_tko allow_tma=0": 1, "load_view_tko latency=3": 1}


def test_memory_families_tiles_and_padding():
    kernel = only(VIEW)
    assert kernel.families == {"view load without TMA": 1, "view store": 1}
    assert kernel.accesses == {"view load without TMA 4x64xf16": 1, "view store 4x64xf16": 1}
    assert kernel.paddings == {"neg_inf": 1}
    kernel = only(POINTERS)
    assert kernel.families == {"pointer load": 1, "pointer store": 1, "atomic": 1}
    assert kernel.accesses == {"pointer load 64xf16": 1, "pointer store 64xf16": 1, "atomic 64xf16": 1}


def test_other_kinds_of_view_are_told_apart():
    kernel = only(VIEW.replace("partition_view<tile=(4x64)", "gather_scatter_view<tile=(4x64)"))
    assert kernel.families == {"gather_scatter view load without TMA": 1, "gather_scatter view store": 1}


def test_reductions_products_and_control_flow():
    kernel = only(VIEW)
    assert kernel.reductions == {"reduce(maxf, axis 1, tile<4x64xf32>)": 1}
    assert kernel.control == {"for carrying 1 tile and 1 token": 1, "if": 1}
    assert kernel.counts["addf"] == 1
    assert [o.name for o in kernel.operations if o.in_loop][:2] == ["load_view_tko", "ftof"]
    assert not next(o for o in kernel.operations if o.name == "return").in_loop
    kernel = only(PRODUCT)
    assert kernel.products == {"mmaf(tile<16x64xf16>, tile<64x16xf16>, tile<16x16xf32>)": 1}
    assert kernel.reductions == {"scan(addf, axis 1, tile<16x16xf32>)": 1}
    assert kernel.control == {"loop carrying 2 tiles": 1}


def test_several_entries_and_no_entry():
    assert [kernel.name for kernel in parse_listing(VIEW + "\n" + POINTERS)] == ["scale_rows", "gather_rows"]
    for text in ("", "error: not a bytecode file", "entry @cut(%arg0: tile<i32>) {\n  return\n"):
        with pytest.raises(CompileError, match="no kernel"):
            parse_listing(text)


def test_hints_of_lines_without_any_or_with_unknown_values():
    assert parse_hints("%0 = make_token : token") == {}
    assert parse_hints("optimization_hints=<default = {occupancy = 2 : i32, note = text}>") == {
        "default": {"occupancy": 2}
    }


def test_equal_kernels_have_no_difference():
    same = compare_kernels(only(VIEW), only(VIEW), "sm_90")
    assert same.equal
    assert same.categories == ()
    assert same.summary().startswith("no difference")


@pytest.mark.parametrize(
    ("change", "category", "ours", "theirs"),
    [
        (("allow_tma = false, ", ""), "memory_family", "view loads (TMA)", "view load without TMA"),
        (("padding_value = neg_inf, ", ""), "memory_family", "1 x undetermined", "1 x neg_inf"),
        (("4x64", "4x32"), "tile_shape", "1 x view store 4x32xf16", "1 x view store 4x64xf16"),
        (("maxf", "addf"), "reduction", "1 x reduce(addf, axis 1", "1 x reduce(maxf, axis 1"),
        (
            (", %iterArg1 = %0) -> (tile<f32>, token)", ") -> (tile<f32>)"),
            "control",
            "for carrying 1 tile",
            "and 1 token",
        ),
        (("occupancy = 2", "occupancy = 1"), "hint", "1", "2"),
        (("latency = 3", "latency = 5"), "hint", "latency=5", "latency=3"),
    ],
)
def test_each_category_is_named_with_both_values(change, category, ours, theirs):
    found = compare_kernels(only(VIEW.replace(*change)), only(VIEW), "sm_90")
    assert category in found.categories
    difference = next(d for d in found.differences if d.category == category)
    assert ours in difference.ours
    assert theirs in difference.theirs
    assert str(difference).startswith(f"{category}: ")
    assert difference.to_dict()["category"] == category


def test_products_differ_by_type_and_families_by_presence():
    changed = PRODUCT.replace("64x16xf16", "64x16xbf16").replace("16x64xf16", "16x64xbf16")
    assert compare_kernels(only(changed), only(PRODUCT), "sm_90").categories == ("mma",)
    found = compare_kernels(only(VIEW), only(POINTERS), "sm_90")
    assert found.categories == tuple(c for c in CATEGORIES if c != "mma")
    assert found.differences[0].ours == "view load without TMA, view stores (TMA)"
    assert found.differences[0].theirs == "atomic, pointer loads (gather), pointer stores (scatter)"
    assert found.operations["iota"] == (0, 1)
    assert "iota 0/1" in found.summary()
