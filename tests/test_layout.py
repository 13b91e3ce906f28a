# SPDX-License-Identifier: MIT
"""No folder of tests is left out by accident, and no two test modules share a name."""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
APART = {TESTS / "stress"}
"""Run by `make stress`."""


def test_every_folder_of_tests_is_collected(request: pytest.FixtureRequest) -> None:
    patterns = request.config.getini("norecursedirs")
    folders = {path.parent for path in TESTS.rglob("test_*.py")}
    left_out = {
        folder
        for folder in folders
        if any(fnmatch(part, pattern) for part in folder.relative_to(TESTS).parts for pattern in patterns)
    }
    assert left_out == APART


def test_names_of_test_modules_are_unique() -> None:
    counts = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in counts.items() if count > 1] == []
