# SPDX-License-Identifier: MIT
"""The text that the translator writes; nothing is built here."""

from __future__ import annotations

import re

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import port_kernels as kernels  # noqa: E402
import port_launches  # noqa: E402
from port_launches import launch  # noqa: E402
from port_launches import meta  # noqa: E402

from tilegym_rs_backend.port.translate import translate  # noqa: E402

SCALE_ROWS = """\
// Translated from `scale_rows` in port_kernels.py; generated, not edited.

#[cutile::module]
pub mod scale_rows {
    use cutile::core::*;

    #[tile::entry(unchecked_accesses = true)]
    #[tile::passes(drop_bounds)]
    pub unsafe fn scale_rows<E: ElementType, const ROWS: i32, const COLS: i32>(
        out: &Tensor<E, { [-1, -1] }>,
        x: &Tensor<E, { [-1, -1] }>,
        alpha: f32,
    ) {
        let tok: Token = new_token_unordered();
        // port_kernels.py:LINE
        let row: i32 = get_tile_block_id().0;
        // port_kernels.py:LINE
        let x_p: Partition<E, { [ROWS, COLS] }> = unsafe { make_partition_view(x, shape![ROWS, COLS], padding::Zero, \
dim_map::Identity, tok) };
        let ld: (Tile<E, { [ROWS, COLS] }>, Token) = unsafe { load_view_raw(&x_p, [row, 0i32], Some(tok), \
ordering::Weak, scope::TileBlock, tma::Enabled, None, [false, false], shape![ROWS, COLS]) };
        let tile_2: Tile<E, { [ROWS, COLS] }> = ld.0;
        // port_kernels.py:LINE
        let t: Tile<f32, { [ROWS, COLS] }> = convert_tile(tile_2);
        let alpha_t: Tile<f32, { [] }> = scalar_to_tile(alpha);
        let t_3: Tile<f32, { [ROWS, COLS] }> = alpha_t.reshape(shape![1, 1]).broadcast(shape![ROWS, COLS]);
        let scaled: Tile<f32, { [ROWS, COLS] }> = t * t_3;
        // port_kernels.py:LINE
        let t_4: Tile<E, { [ROWS, COLS] }> = convert_tile(scaled);
        let out_p: Partition<E, { [ROWS, COLS] }> = unsafe { make_partition_view(out, shape![ROWS, COLS], \
padding::None, dim_map::Identity, tok) };
        unsafe { store_view_raw(&out_p, t_4, [row, 0i32], Some(tok), ordering::Weak, scope::TileBlock, tma::Enabled, \
None, [false, false]) };
    }
}
"""


@pytest.fixture(scope="module")
def translations():
    return {name: translate(found) for name, found in port_launches.launches().items()}


def without_lines(text):
    return re.sub(r"\.py:\d+", ".py:LINE", text)


def test_a_whole_text(translations):
    assert without_lines(translations["scale_rows"].source) == SCALE_ROWS


def test_lines_are_those_of_the_python_file(translations):
    source = translations["scale_rows"].source
    [line] = re.findall(r"port_kernels\.py:(\d+)\n +let row", source)
    with open(kernels.__file__) as file:
        assert "row = ct.bid(0)" in file.read().splitlines()[int(line) - 1]


def test_parameters_and_generics_are_described(translations):
    found = translations["scale_rows"]
    assert [(p.name, p.kind, p.argument) for p in found.parameters] == [
        ("out", "tensor", 0),
        ("x", "tensor", 1),
        ("alpha", "scalar", 2),
    ]
    assert [(g.name, g.expression, g.value) for g in found.generics] == [("ROWS", "ROWS", 16), ("COLS", "COLS", 128)]
    assert (found.dtype_generic, found.module, found.entry, found.baked) == ("f16", "scale_rows", "scale_rows", ())
    assert found.constants == (16, 128)


def test_bfloat16_has_the_text_of_float16(translations):
    other = meta(64, 128, dtype=torch.bfloat16)
    found = translate(launch(kernels.scale_rows, other, other, 2.0, 32, 64))
    assert found.source == translations["scale_rows"].source
    assert found.dtype_generic == "bf16"
    assert found.constants == (32, 64)


def test_other_constants_have_the_same_text(translations):
    first = translations["product"]
    a, b, c = (meta(256, 256, dtype=torch.float16) for _ in range(3))
    second = translate(launch(kernels.product, c, a, b, 64, 128, 32))
    assert second.source == first.source
    assert second.constants != first.constants


def test_a_type_that_the_text_needs_stays_concrete(translations):
    found = translations["half_offset"]
    assert found.dtype_generic is None
    assert "constant(14746u16, shape![WIDTH])" in found.source  # 0.7 as f16
    assert "negf(" in found.source


def test_infinities_of_bfloat16_are_written_by_their_bits(translations):
    # As constants of their name they become NaN.
    source = translations["infinities_bf16"].source
    assert "INFINITY" not in source
    assert source.count("constant(32640u16, shape![WIDTH])") == 2  # 0x7f80
    assert "f16::NEG_INFINITY" in translations["infinities_f16"].source


def test_a_tensor_whose_strides_are_used_is_flattened(translations):
    found = translations["row_statistics"]
    assert "#[tile::flattened(low = 1, high = 1, x = 2)]" in found.source or "flattened(x = 2" in found.source
    parts = [(p.name, p.kind, p.axis, p.folded) for p in found.parameters if p.argument == 2]
    assert parts == [
        ("x", "pointer", 0, False),
        ("x_n0", "extent", 0, True),
        ("x_n1", "extent", 1, True),
        ("x_s0", "stride", 0, True),
        ("x_s1", "stride", 1, True),
    ]
    assert [p.name for p in found.scalars] == ["n_rows"]


def test_an_extent_of_one_and_a_unit_stride_inside_are_facts_of_the_launch(translations):
    one, transposed = translations["scale_rows_one"], translations["scale_rows_transposed"]
    assert one.holds["x"].extents == (1, None)
    assert "x(extents = [1, -1], strides = [-1, 1])" in one.source
    assert "Shape<{ [1, -1] }>" in one.source
    assert transposed.holds["x"].strides == (1, None)
    assert "x(strides = [1, -1])" in transposed.source


def test_divisibility_of_a_computed_value_is_required_of_the_launch(translations):
    # The address of row r of x is base + r * stride: as divisible as both are.
    even, odd = translations["row_offsets"], translations["row_offsets_odd"]
    for found in (even, odd):
        for divisor in re.findall(r"assume_div_by::<_, (\d+)>", found.source):
            assert int(divisor) > 1
            assert found.holds["x"].pointer_16 or found.holds["out"].pointer_16
    assert "assume_div_by" not in even.source.split("pub unsafe fn")[1]


def test_a_float_constant_and_what_is_computed_from_it_are_bits(translations):
    found = translations["clipped"]
    by_name = {g.name: g for g in found.generics}
    assert by_name["HALF_SCALE_BITS"].expression == "HALF_SCALE"
    assert by_name["HALF_SCALE_TIMES_0P5_BITS"].expression == "(HALF_SCALE * 0.5)"
    bits = torch.tensor([0.1, 0.05]).view(torch.int32).tolist()
    assert [by_name[n].value for n in ("HALF_SCALE_BITS", "HALF_SCALE_TIMES_0P5_BITS")] == bits


def test_a_flag_is_baked_and_said_so(translations):
    v = meta(4096)
    assert translations["clipped"].baked == ("FLIP = False",)
    flipped = translate(launch(kernels.clipped, v, v, 3, 256, 0.1, True))
    assert flipped.baked == ("FLIP = True",)
    assert flipped.source != translations["clipped"].source


def test_what_follows_an_early_return_goes_into_the_other_arm(translations):
    body = translations["clipped"].source
    start = body.index("if t {")
    assert body[start:].startswith("if t {\n        } else {\n")
    assert "store_view_raw" in body[start:]
    assert "return" not in body


def test_a_while_loop_breaks(translations):
    body = translations["halve_until_small"].source
    assert "loop {" in body
    assert "break;" in body


def test_passes_are_named_where_the_text_relies_on_them(translations):
    assert "#[tile::passes(drop_bounds, scan_axes = [1])]" in translations["running_sum"].source
    assert translations["narrowed"].passes == ("drop_bounds", "fold_pads", "wrapping_truncations")
    assert translations["product"].passes == ("drop_bounds",)


def test_parity_passes_are_those_of_the_constructs_in_the_text(translations):
    assert translations["decides"].passes == ("drop_bounds", "unchanged_results")
    assert translations["in_order"].passes == ("constant_tiles", "drop_bounds")


def test_an_operation_keeps_its_place(translations):
    body = translations["in_order"].source
    assert body.index(".reshape(shape![1, WIDTH]);") < body.index("exp(tile") < body.index("row.broadcast(")


def test_an_unsigned_literal_above_the_signed_maximum_is_written_by_its_bits(translations):
    # As a u32 literal it would silently become 0.
    body = translations["mixed_bits"].source
    assert "3528531795" not in body
    assert f"constant({0xD2511F53 - (1 << 32)}i32, " in body
    assert "bitcast(" in body


def test_a_latency_is_a_generic(translations):
    source = translations["pipelined"].source
    assert "Latency::<LATENCY>" in source
    assert "Some(LATENCY_PLUS_1)" in source
    # rustc cannot infer it from the arguments.
    assert "gather::<WIDTH, LATENCY>(" in source


def test_equal_gathers_share_a_function(translations):
    source = translations["stencil"].source
    assert len(re.findall(r"fn gather", source)) == 1
    assert len(re.findall(r"= gather\(", source)) == 3


def test_a_list_of_tensors_comes_as_words(translations):
    found = translations["add_all"]
    assert [(p.name, p.type, p.kind) for p in found.parameters][1:] == [
        ("xs", "*mut i64", "list"),
        ("xs_len", "i32", "length"),
    ]
    assert "int_to_ptr(" in found.source


def test_a_kernel_with_a_name_of_the_dsl_is_renamed():
    found = translate(launch(kernels.select, meta(64), 64))
    assert found.entry == "kernel_select"
    cleared = found.renamed("cleared")
    assert cleared.entry == cleared.module == "cleared"
    assert "pub mod cleared {" in cleared.source
    assert "pub unsafe fn cleared<" in cleared.source


def test_a_translation_leaves_no_hooks_behind():
    import cuda.tile._compile as front
    from cuda.tile._ir import core_ops
    from cuda.tile._ir import type as types

    before = (front._transform_ir, front.eliminate_assign_ops, core_ops.canonicalize_const_value_for_type)
    cache = types._tile_ty_cache
    translate(launch(kernels.stencil, meta(64), meta(64), 64, 64))
    assert (front._transform_ir, front.eliminate_assign_ops, core_ops.canonicalize_const_value_for_type) == before
    assert types._tile_ty_cache is cache


def test_the_table_of_constructs_is_the_emitters():
    from pathlib import Path

    from tilegym_rs_backend.port.translate.constructs import table

    page = (Path(__file__).parents[2] / "docs" / "kernels.md").read_text()
    between = page.split("<!-- constructs -->\n")[1].split("<!-- end of constructs -->")[0]
    assert between == table(), "run python -m tilegym_rs_backend.port.translate.constructs and paste its output"
