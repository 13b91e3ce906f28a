# SPDX-License-Identifier: MIT
"""The summary as markdown; on GitHub Actions it joins the step's summary by itself."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.terminal import HEAD
from pytest_cutile_rs.report.terminal import rows
from pytest_cutile_rs.result import FAILING


def render(report: Report) -> str:
    """The run as markdown."""
    lines = ["## cutile-rs parity", ""]
    if report.results:
        lines += [_row(HEAD), _row(["---"] * len(HEAD)), *(_row(row) for row in rows(report)), ""]
    for (check, category), (text, where) in report.differences().items():
        lines.append(f"- {check} `{category}`: {len(where)} cases, such as `{where[0]}`: {_escape(text)}")
    for (check, reason), count in sorted(report.not_run().items()):
        lines.append(f"- not run: {count} {check}: {_escape(reason)}")
    failed = [one for one in report.results if one.status in FAILING]
    if failed:
        lines += ["", "### Failed", "", *(f"- `{one.nodeid}`: {one.status} {_escape(one.reason)}" for one in failed)]
    if report.tilegym:
        tilegym = report.tilegym
        lines += ["", f"TileGym's tests: {tilegym.passed} passed, {len(tilegym.failed)} failed"]
        lines += [f"- `{name}`" for name in tilegym.failed]
    if not report.complete:
        lines += ["", "**The run is incomplete.**"]
    return "\n".join([*lines, "", f"`{report.verdict()}`", ""])


def append_step_summary(report: Report) -> None:
    """Appends to the file that GITHUB_STEP_SUMMARY names, if it does."""
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if target:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(render(report))


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape(cell) for cell in cells) + " |"


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
