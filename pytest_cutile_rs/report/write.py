# SPDX-License-Identifier: MIT
"""Writes a run's files: ``summary.{json,md,csv}`` and ``<op>/<check>.json``, each by one rename."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.report import csv
from pytest_cutile_rs.report import markdown
from pytest_cutile_rs.report.model import SCHEMA_VERSION
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import op_verdict

CHECK_SCHEMA_NAME = "tilegym-rs.parity-check"


def write_all(out: Path, report: Report, raw: Mapping[str, Any]) -> None:
    """Writes everything below ``out``, which ignores itself in git.

    Raises:
        OSError: the folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    ignore = out / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    _replace(out / "summary.json", _json(raw))
    _replace(out / "summary.md", markdown.render(report))
    _replace(out / "summary.csv", csv.render(report))
    for check in CHECKS:
        for op, results in report.by_op(check).items():
            folder = out / op
            folder.mkdir(exist_ok=True)
            content = {
                "schema": {"name": CHECK_SCHEMA_NAME, "version": SCHEMA_VERSION},
                "op": op,
                "check": check,
                "complete": report.complete,
                "cases": [result.to_dict() for result in results],
                "verdict": op_verdict(results),
            }
            _replace(folder / f"{check}.json", _json(content))


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=1, allow_nan=False, default=str) + "\n"


def _replace(path: Path, text: str) -> None:
    staged = path.with_name(f".{path.name}.{os.getpid()}")
    staged.write_text(text, encoding="utf-8")
    staged.replace(path)
