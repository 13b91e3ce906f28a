# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def golden():
    """Compares a text with a committed one; with TILEGYM_RS_UPDATE_GOLDEN=1 writes it anew, and fails all the same."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        known = path.read_text(encoding="utf-8") if path.exists() else None
        if text != known and os.environ.get("TILEGYM_RS_UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
            pytest.fail(f"{path.name} was written anew: look at it and run again", pytrace=False)
        assert text == known, f"{name} differs; if it is meant to, run with TILEGYM_RS_UPDATE_GOLDEN=1"

    return compare


@pytest.fixture(autouse=True)
def not_on_github(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
