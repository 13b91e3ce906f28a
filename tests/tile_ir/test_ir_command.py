# SPDX-License-Identifier: MIT
"""`tilegym-rs ir` on a parity case: our kernels through the Rust library, cuTile Python's through the worker."""

from __future__ import annotations

import json

import pytest

from tilegym_rs_backend.cli import main
from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tile_ir.features import CATEGORIES

CASE = "f16-256x256-tma"

pytestmark = pytest.mark.cargo


@pytest.fixture(scope="module", autouse=True)
def library():
    for package in ("torch", "tilegym", "cuda.tile"):
        pytest.importorskip(package)
    from tilegym_rs_backend.library import get_library

    try:
        return get_library()
    except TilegymRsError as error:
        pytest.skip(f"the Rust library cannot be built here: {error}")


def test_ours_is_shown_with_our_source(capsys):
    assert main(["ir", "show", "softmax", CASE]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Tile IR 13.4\nentry @softmax")
    assert "# softmax.rs:" in out


def test_theirs_is_shown_with_its_source(capsys):
    assert main(["ir", "show", "softmax", CASE, "--theirs"]) == 0
    out = capsys.readouterr().out
    assert "entry @_softmax_kernel" in out
    assert "# softmax.py:" in out


def test_the_sides_are_compared(capsys):
    main(["ir", "diff", "softmax", CASE, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert [launch["verdict"] for launch in found] == ["DIFFERS"]
    assert {each["category"] for each in found[0]["differences"]} <= set(CATEGORIES)
    assert all(each["our_line"] or each["their_line"] for each in found[0]["differences"])
