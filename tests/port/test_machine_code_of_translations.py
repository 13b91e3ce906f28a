# SPDX-License-Identifier: MIT
"""Translated kernels compile to the original's machine code: kernels of our own, one crate, no GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import port_kernels as kernels

from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.port import specialize
from tilegym_rs_backend.port.compare import IDENTICAL
from tilegym_rs_backend.port.compare import Entries
from tilegym_rs_backend.port.compare import build
from tilegym_rs_backend.port.compare import compare

pytestmark = [pytest.mark.cargo, pytest.mark.slow]


@pytest.fixture(scope="module")
def launches():
    return kernels.launches()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ported") / "crate"


@pytest.fixture(scope="module")
def comparisons(launches, folder):
    try:
        found = compare(list(launches.values()), folder)
    except ToolchainError as error:
        pytest.skip(str(error))
    return dict(zip(launches, found, strict=True))


@pytest.mark.parametrize("name", sorted(kernels.NAMES))
def test_the_machine_code_is_the_originals(comparisons, name):
    found = comparisons[name]
    source = found.translation.source if found.translation else ""
    assert found.verdict == IDENTICAL, f"{found.verdict}: {found.detail}\n{source}"


def test_launches_of_one_class_share_an_entry(comparisons):
    entries = {name: found.translation.entry for name, found in comparisons.items()}
    assert entries["scale_rows"] == "scale_rows"
    assert entries["scale_rows_one"] != entries["scale_rows"]
    assert entries["row_offsets_odd"] == entries["row_offsets"] == entries["row_offsets_unaligned"]
    assert entries["scale_rows_odd"] == entries["scale_rows_unaligned"]


def test_a_launch_of_another_class_is_refused_by_the_library(comparisons, launches, folder):
    entries = Entries()
    for launch in launches.values():
        entries.translate(launch)
    library, failed = build(entries.sources, folder)
    assert not failed
    one = comparisons["scale_rows_one"].translation
    with pytest.raises(CompileError, match=r"extent 64 of axis 0 is not 1.*translate the launch again"):
        specialize.token(library, one, launches["scale_rows_odd"])


def test_a_changed_kernel_is_different(launches, folder):
    launch = launches["stencil"]
    entries = Entries()
    translation = entries.translate(launch)
    changed = {translation.module: translation.source.replace("0.25f32", "0.5f32")}
    assert changed[translation.module] != translation.source
    library, failed = build(changed, folder)
    assert not failed
    from tilegym_rs_backend.port.compare import DIFFERENT
    from tilegym_rs_backend.port.compare import one

    found = one(library, translation, launch, assemblies=1)
    assert found.verdict == DIFFERENT
    assert "instructions differ" in found.detail


def test_a_file_that_rustc_refuses_is_named_and_the_rest_is_built(launches, folder):
    entries = Entries()
    good = entries.translate(launches["stencil"])
    bad = entries.translate(launches["batched_outer"])
    sources = dict(entries.sources)
    sources[bad.module] = bad.source.replace("get_tile_block_id()", "nothing_at_all()")
    library, failed = build(sources, folder)
    assert list(failed) == [bad.module]
    assert "cannot find function `nothing_at_all`" in failed[bad.module]
    assert [k["name"] for k in library.describe["kernels"]] == [good.entry]
