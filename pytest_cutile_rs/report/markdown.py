# SPDX-License-Identifier: MIT
"""The summary as markdown."""

from __future__ import annotations

from pytest_cutile_rs import record
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import worst_first
from pytest_cutile_rs.report.table import Table
from pytest_cutile_rs.report.table import escape
from pytest_cutile_rs.report.terminal import HEAD
from pytest_cutile_rs.report.terminal import rows

LISTED = 100
"""Failed checks that are named; GitHub refuses a step's summary of more than 1 MiB."""


def render(report: Report) -> str:
    """The run as markdown."""
    lines = ["## cutile-rs parity", ""]
    if report.results:
        lines += [*Table(HEAD, rows(report)).markdown(), ""]
    for (check, category), (text, where) in report.differences().items():
        lines.append(f"- {check} `{category}`: {len(where)} cases, such as `{where[0]}`: {escape(text)}")
    lines += [f"- {escape(line)}" for line, _ in record.lines(report.extra)]
    for (check, reason), count in sorted(report.not_run().items()):
        lines.append(f"- not run: {count} {check}: {escape(reason)}")
    failed = worst_first(one for one in report.results if report.fails(one))
    if failed:
        lines += ["", "### Failed", ""]
        lines += [f"- `{one.nodeid}`: {one.status} {escape(one.reason)}" for one in failed[:LISTED]]
    if len(failed) > LISTED:
        lines.append(f"- and {len(failed) - LISTED} more: summary.json and summary.html have all")
    if report.tilegym:
        tilegym = report.tilegym
        lines += ["", f"TileGym's tests: {tilegym.passed} passed, {len(tilegym.failed)} failed"]
        lines += [f"- `{name}`" for name in tilegym.failed]
    if not report.complete:
        lines += ["", "**The run is incomplete.**"]
    return "\n".join([*lines, "", f"`{report.verdict()}`", ""])
