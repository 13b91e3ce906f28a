# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
from collections.abc import Callable

import pytest


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with a file in the folder golden/ beside the test.

    With TILEGYM_RS_UPDATE_GOLDEN=1 it writes the file anew, and fails all the same.
    """

    def compare(name: str, text: str) -> None:
        path = request.path.parent / "golden" / name
        known = path.read_text(encoding="utf-8") if path.exists() else None
        if text != known and os.environ.get("TILEGYM_RS_UPDATE_GOLDEN") == "1":
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            pytest.fail(f"{path.name} was written anew: look at it and run again", pytrace=False)
        assert text == known, f"{name} differs; if it is meant to, run with TILEGYM_RS_UPDATE_GOLDEN=1"

    return compare
