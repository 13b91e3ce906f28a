# SPDX-License-Identifier: MIT
"""One self-contained page: style and script inside, nothing fetched, readable from a file and without the script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import utc
from pytest_cutile_rs.report.page import cases
from pytest_cutile_rs.report.page import gating
from pytest_cutile_rs.report.page import history
from pytest_cutile_rs.report.page import overview
from pytest_cutile_rs.report.page import plot
from pytest_cutile_rs.report.page.markup import join
from pytest_cutile_rs.report.page.markup import tag

_PAGE = Path(__file__).parent / "page"


def render(report: Report, earlier: Sequence[Report] = ()) -> str:
    """The page of a run.

    Args:
        report: the run.
        earlier: saved runs for the history, in any order; those of other machines are counted and left out.
    """
    body = join(
        overview.header(report),
        tag(
            "main",
            overview.ops(report),
            plot.ratios(report),
            gating.gating(report),
            history.history(report, earlier),
            overview.differences(report),
            overview.idle(report),
            overview.tilegym(report),
            overview.verdicts(report),
            cases.cases(report),
        ),
    )
    return Template(_part("page.html")).substitute(
        title=f"cutile-rs parity {utc(report.started)[:10]}",
        style=_part("style.css"),
        script=_part("script.js"),
        body=body,
    )


def _part(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")
