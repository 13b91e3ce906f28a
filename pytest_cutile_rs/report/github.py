# SPDX-License-Identifier: MIT
"""GitHub Actions: the step's summary; ``::error`` for what fails a run, ``::warning`` for what is undecided."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from pytest_cutile_rs.report import markdown
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import worst_first
from pytest_cutile_rs.result import AMBIGUOUS
from pytest_cutile_rs.result import CheckResult

MOST = 10
"""GitHub shows no more of either kind per step."""


def annotation_lines(report: Report) -> list[str]:
    """The annotations of a run; none outside of GitHub Actions."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return []
    failed = worst_first(one for one in report.results if report.fails(one))
    undecided = worst_first(one for one in report.results if one.status == AMBIGUOUS and not report.fails(one))
    errors = [_annotation("error", one) for one in failed]
    theirs = report.tilegym.failed if report.tilegym else ()
    errors += [f"::error title=TileGym's test::{_message(name)}" for name in theirs]
    if report.shortfall():
        errors.append(f"::error title=cutile-rs parity::{_message(report.shortfall())}")
    return [*_few("error", errors), *_few("warning", [_annotation("warning", one) for one in undecided])]


def append_step_summary(report: Report) -> str:
    """Appends the markdown to the file that GITHUB_STEP_SUMMARY names, if it does.

    Returns:
        Why it could not be written; empty when it was, or was not asked for. It decorates a run and must not end it.
    """
    target = os.environ.get("GITHUB_STEP_SUMMARY")
    if not target:
        return ""
    try:
        with Path(target).open("a", encoding="utf-8") as file:
            file.write(markdown.render(report))
    except OSError as error:
        return f"the step's summary could not be written: {error}"
    return ""


def _few(kind: str, found: Sequence[str]) -> list[str]:
    if len(found) <= MOST:
        return list(found)
    rest = len(found) - MOST + 1
    return [*found[: MOST - 1], f"::{kind} title=cutile-rs parity::and {rest} more: the step's summary lists all"]


def _annotation(kind: str, result: CheckResult) -> str:
    places = [path for path in (f"rust/src/ops/{result.op}.rs", f"pytest_cutile_rs/cases/{result.op}.py")]
    file = next((path for path in places if Path(path).is_file()), "")
    properties = [f"title={_property(result.nodeid)}"]
    if file:
        properties.insert(0, f"file={_property(file)}")
    return f"::{kind} {','.join(properties)}::{_message(f'{result.status} {result.reason}')}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
