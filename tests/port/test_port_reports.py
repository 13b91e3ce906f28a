# SPDX-License-Identifier: MIT
"""The IR-difference report on wrong translations: category, whose fault, why."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import mutated_kernels as kernels

from tilegym_rs_backend.port import differences
from tilegym_rs_backend.port import residual
from tilegym_rs_backend.port.comparison import compare_launch
from tilegym_rs_backend.port.comparison import kernel_in
from tilegym_rs_backend.port.comparison import translated_bytecode
from tilegym_rs_backend.port.stored import bytecode

pytestmark = pytest.mark.cargo

RESULT = {"stem": "k-0", "kernel": "k", "case": "call", "verdict": "SASS-DIFFERENT", "detail": ""}
FAULTS = {
    "RawBinaryArithmeticOperation-operand_order-floats": ("operand_order", "kernel"),
    "RawBinaryArithmeticOperation-operator-floats": ("operator", "kernel"),
    "RawBinaryArithmeticOperation-rounding-floats": ("modifier", "kernel"),
    "TypedConst-filled_tile-blocks": ("constant", "kernel"),
    "TileBid-axis-blocks": ("loop_structure", "kernel"),
    "TileStore-token-rereads": ("token", "kernel"),
    "TilePermute-axes-squares": ("axis", "kernel"),
    "TileAtomicRMW-order-updates": ("memory_order", "kernel"),
    "TileLoad-latency-views": ("hint", "kernel"),
    "AssumeDivBy-divisor-states_facts": ("assumption", "kernel"),
    "TileScan-axis-backwards": ("axis", "compiler"),
    "TileAsType-overflow-conversions": ("modifier", "compiler"),
    "LoadPointer-separate_padding-row_offsets": ("operand", "compiler"),
}


def sides(crate, name):
    entry = crate.wrong[name]
    launch = crate.launches[name.split("-")[2]]
    ours = translated_bytecode(crate.kernels, launch, entry)
    return kernel_in(ours), kernel_in(crate.original(name.split("-")[2]))


@pytest.mark.parametrize("name", FAULTS)
def test_category_and_fault(shared_crate, name):
    category, fault = FAULTS[name]
    ours, theirs = sides(shared_crate, name)
    found = differences.report(RESULT, ours, theirs, "sm_90")
    assert found["fault"] == fault, found
    assert category in {row["category"] for row in found["differences"] if row["fault"] == fault}, found
    assert found["why"]
    assert found["fix"]
    text = differences.text_of(found, ours, theirs)
    assert f"fault: {fault} (" in text
    assert "ours: " in text.splitlines()[-1] or " | " in text or " < " in text or " > " in text


def test_both_lines_are_named(shared_crate):
    ours, theirs = sides(shared_crate, "RawBinaryArithmeticOperation-operator-floats")
    [row] = differences.report(RESULT, ours, theirs, "sm_90")["differences"]
    assert row["our_line"].split(":")[0].endswith(".rs")
    file, line, _ = row["their_line"].split(":")
    assert file == "mutated_kernels.py"
    with open(kernels.__file__) as source:
        assert "ct.maximum(a, b)" in source.read().splitlines()[int(line) - 1]
    assert row["ours"].startswith("minf(")
    assert row["theirs"].startswith("maxf(")


def test_bounds_that_the_plain_front_end_adds_are_its_own_fault(shared_crate):
    from tilegym_rs_backend.port.entries import translated

    launch = shared_crate.launches["views"]
    entry = shared_crate.plain
    assert entry.name == translated(launch, plain=True)[0].name
    ours = kernel_in(translated_bytecode(shared_crate.kernels, launch, entry))
    found = differences.report(RESULT, ours, kernel_in(bytecode(launch)), "sm_90")
    assert found["fault"] == "compiler"
    assert "drop_bounds" in found["fix"]


def test_equal_tile_ir_is_tileiras_fault(shared_crate):
    _, theirs = sides(shared_crate, "TileBid-axis-blocks")
    found = differences.report(RESULT, theirs, theirs, "sm_90")
    assert (found["fault"], found["component"], found["differences"]) == ("compiler", "tileiras", [])


@pytest.mark.parametrize(
    ("verdict", "fault"),
    [("REFUSED", "kernel"), ("NOT-BUILT", "kernel"), ("NOT-COMPILED", "compiler"), ("NO-ORIGINAL", "compiler")],
)
def test_what_was_not_compared_has_a_fault_too(verdict, fault):
    found = differences.report({**RESULT, "verdict": verdict, "detail": "x"}, None, None, "sm_90")
    assert found["fault"] == fault
    assert differences.text_of(found, None, None).startswith(f"k [call]: {verdict} x\nfault: {fault} (")


def test_the_residual_of_other_code_is_the_devices(shared_crate):
    name = "TileStore-tma-product"
    launch, entry = shared_crate.launches["product"], shared_crate.wrong[name]
    found = compare_launch(shared_crate.kernels, launch, entry, assemblies=1)
    one = residual.of_launch(RESULT, found.cubins, sides(shared_crate, name), "sm_90", [])
    assert one["where"] == "device"
    assert "without TMA" in one["device"]["memory_family"][0]
    assert one["device"]["code"]["differing_instructions"] > 0
    assert "text_bytes" in one["device"]["code"] or "registers" in one["device"]["code"] or one["device"]["code"]


def test_the_residual_of_equal_code_is_the_hosts():
    one = residual.of_launch({**RESULT, "verdict": "SASS-IDENTICAL"}, {}, None, "sm_90", ["grid: ours 1, theirs 2"])
    assert one["where"] == "host"
    assert "grid: ours 1, theirs 2" in residual.text_of(one)
