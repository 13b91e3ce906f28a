# SPDX-License-Identifier: MIT
"""The table in docs/build.md: every row that has to be there, and every test that it names."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WANTED = ("A1", "A2", "A4", "A6", "A7", "A8", "B9", "B10", "B11", "B12", "B16", "X2", "X3", "X4", "X5", "X7")


def rows() -> dict[str, list[str]]:
    text = (ROOT / "docs" / "build.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([ABX]\d+) \|[^|]*\|[^|]*\|([^|]*)\|$", text, re.MULTILINE)
    return {row: re.findall(r"`([^`]+)`", tests) for row, tests in found}


@cache
def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_report_has_its_row() -> None:
    assert tuple(rows()) == WANTED


@pytest.mark.parametrize("row", WANTED)
def test_the_tests_of_a_row_are_there(row: str) -> None:
    names = rows()[row]
    assert names
    for name in names:
        file, _, function = name.partition("::")
        assert function.startswith("test_"), name
        assert function in functions(ROOT / file), f"{row}: {name} is not there"
