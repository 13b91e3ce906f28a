# SPDX-License-Identifier: MIT
"""Translated kernels compile to the original's machine code: kernels of our own, one crate, no GPU."""

from __future__ import annotations

import dataclasses

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import port_launches

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.port.comparison import DIFFERENT
from tilegym_rs_backend.port.comparison import IDENTICAL
from tilegym_rs_backend.port.comparison import compare_launch
from tilegym_rs_backend.port.comparison import translated_bytecode
from tilegym_rs_backend.port.crate import build
from tilegym_rs_backend.port.entries import translated

pytestmark = [pytest.mark.cargo, pytest.mark.slow]


@pytest.mark.parametrize("name", sorted(port_launches.NAMES))
def test_the_machine_code_is_the_originals(shared_crate, name):
    launch = shared_crate.launches[name]
    found = compare_launch(shared_crate.kernels, launch)
    assert found.verdict == IDENTICAL, f"{found.detail}\n{shared_crate.kernels.crate.source(found.entry)}"


def test_a_branch_yields_what_it_changes_and_no_more(shared_crate):
    for name in ("decides", "sum_of_some", "halve_then_look"):
        found = compare_launch(shared_crate.kernels, shared_crate.launches[name])
        assert found.ir in ("IDENTICAL", "EQUIVALENT"), (name, found.ir)


def test_launches_of_one_class_share_an_entry(shared_crate):
    entries = {name: shared_crate.kernels.entry(launch).name for name, launch in shared_crate.launches.items()}
    assert entries["scale_rows"].startswith("scale_rows_")
    assert entries["scale_rows_one"] != entries["scale_rows"]
    assert entries["row_offsets_odd"] == entries["row_offsets"] == entries["row_offsets_unaligned"]
    assert entries["scale_rows_odd"] == entries["scale_rows_unaligned"]


def test_a_launch_of_another_class_is_refused_by_the_library(shared_crate):
    one = shared_crate.kernels.entry(shared_crate.launches["scale_rows_one"])
    with pytest.raises(LaunchError, match=r"extent 64 of axis 0 is not 1.*translate the launch again"):
        translated_bytecode(shared_crate.kernels, shared_crate.launches["scale_rows_odd"], one)


def test_a_changed_kernel_is_different(shared_crate):
    entry = shared_crate.wrong["TypedConst-filled_tile-blocks"]
    found = compare_launch(shared_crate.kernels, shared_crate.launches["blocks"], entry, assemblies=1)
    assert found.verdict == DIFFERENT
    assert "instructions differ" in found.detail
    assert found.ir == "DIFFERS in arithmetic"


def test_a_file_that_rustc_refuses_is_named_and_the_rest_is_built(shared_crate, tmp_path):
    (good, text), (bad, other) = (translated(shared_crate.launches[name]) for name in ("stencil", "batched_outer"))
    wrong = other.replace("get_tile_block_id()", "nothing_at_all()")
    library, failed = build({good.name: text, bad.name: wrong}, tmp_path / "crate")
    assert list(failed) == [bad.name]
    assert "cannot find function `nothing_at_all`" in failed[bad.name]
    assert [k["name"] for k in library.describe["kernels"]] == [good.name]


def test_the_plain_front_end_needs_no_parity_pass(shared_crate):
    launch = shared_crate.launches["stencil"]
    plain, text = translated(launch, plain=True)
    assert plain.plain
    assert plain.passes == ("fold_pads",)
    assert "passes(fold_pads)" in text
    assert dataclasses.replace(plain, name="", plain=False, passes=()) == dataclasses.replace(
        shared_crate.kernels.entry(launch), name="", passes=()
    )
