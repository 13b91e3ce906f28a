# SPDX-License-Identifier: MIT
"""The table ``[tool.cutile_rs]`` of the rootdir's pyproject.toml: thresholds per op, and waivers."""

from __future__ import annotations

import datetime
import importlib
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from pytest_cutile_rs.waivers import Waiver
from pytest_cutile_rs.waivers import read_waivers

_KEYS = ("thresholds", "waivers")


@dataclass(frozen=True)
class Project:
    """What a project has decided about its ops."""

    thresholds: Mapping[str, float] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()


def read_project(rootpath: Path, today: datetime.date | None = None) -> Project:
    """Read the table; a file or table that is not there is an empty one.

    Raises:
        pytest.UsageError: the file or an entry is malformed, or a waiver has expired; the message names it.
    """
    path = rootpath / "pyproject.toml"
    if not path.is_file():
        return Project()
    table = _parse(path).get("tool", {}).get("cutile_rs", {})
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise pytest.UsageError(f"{path}: [tool.cutile_rs] has no {', '.join(unknown)}; it has {', '.join(_KEYS)}")
    thresholds = table.get("thresholds", {})
    if not isinstance(thresholds, dict):
        raise pytest.UsageError(f"{path}: [tool.cutile_rs.thresholds] is a table of op = ratio")
    for op, value in thresholds.items():
        if not is_ratio(value):
            raise pytest.UsageError(
                f"{path}: [tool.cutile_rs.thresholds] {op} = {value!r} is no ratio above 0, such as 0.95"
            )
    try:
        waivers = read_waivers(table.get("waivers", []), today or datetime.datetime.now(datetime.timezone.utc).date())
    except ValueError as error:
        raise pytest.UsageError(f"{path}: {error}") from None
    return Project({op: float(value) for op, value in sorted(thresholds.items())}, waivers)


def is_ratio(value: object) -> bool:
    """Whether a value can be a threshold."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and value > 0


def _parse(path: Path) -> dict[str, Any]:
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")  # pytest brings tomli
    try:
        found: dict[str, Any] = toml.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise pytest.UsageError(f"{path} is no TOML: {error}") from None
    return found
