# SPDX-License-Identifier: MIT
"""Writes a run's files: ``summary.{json,md,csv,html}`` and ``<op>/<check>.json``, each by one rename."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.report import csv
from pytest_cutile_rs.report import html
from pytest_cutile_rs.report import markdown
from pytest_cutile_rs.report import runs
from pytest_cutile_rs.report.model import SCHEMA_VERSION
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import op_verdict
from pytest_cutile_rs.report.read import SUMMARY
from tilegym_rs_backend import atomic

CHECK_SCHEMA_NAME = "tilegym-rs.parity-check"


def write_all(out: Path, report: Report, raw: Mapping[str, Any], *, save: bool = False) -> None:
    """Writes everything below ``out``, which ignores itself in git.

    Args:
        out: the folder.
        report: the run.
        raw: its JSON form, with what hooks have added.
        save: keep the run in ``out/runs`` too.

    Raises:
        OSError: the folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    ignore = out / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n", encoding="utf-8")
    if save:
        keep = out / runs.FOLDER
        keep.mkdir(exist_ok=True)
        atomic.write(keep / runs.file_name(report), json_text(raw))
    atomic.write(out / SUMMARY, json_text(raw))
    atomic.write(out / "summary.md", markdown.render(report))
    atomic.write(out / "summary.csv", csv.render(report))
    atomic.write(out / "summary.html", html.render(report, runs.history(out)))
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
            atomic.write(folder / f"{check}.json", json_text(content))


def json_text(content: Mapping[str, Any]) -> str:
    """JSON as reports hold it: no NaN, which no other reader would take."""
    return json.dumps(content, indent=1, allow_nan=False, default=str) + "\n"
