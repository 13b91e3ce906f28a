# SPDX-License-Identifier: MIT
"""The saved runs of this machine: how every op developed, and the runs themselves."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import utc
from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import join
from pytest_cutile_rs.report.page.markup import number
from pytest_cutile_rs.report.page.markup import status
from pytest_cutile_rs.report.page.markup import table
from pytest_cutile_rs.report.page.markup import tag
from pytest_cutile_rs.report.page.strips import Scale
from pytest_cutile_rs.report.page.strips import development
from pytest_cutile_rs.report.trend import Trend
from pytest_cutile_rs.report.trend import trend

LAST = 30
"""Runs shown; the newest ones."""


def history(report: Report, earlier: Sequence[Report]) -> Markup:
    """This run and the saved ones before it on the same machine."""
    before = [one for one in earlier if one.run.get("id") != report.run.get("id") and one.started <= report.started]
    if not before:
        hint = join("No earlier run is saved. ", tag("code", "pytest --cutile-rs --cutile-rs-save"), " saves one.")
        return _section(tag("p", hint))
    found = trend([*before, report])
    runs = found.runs[-LAST:]
    left = f" {found.left_out} saved runs of other machines are left out." if found.left_out else ""
    text = f"{len(runs)} runs, oldest first, of {len(found.runs)} on this machine.{left}"
    return _section(tag("p", text), _lines(found), _runs(runs))


def _lines(found: Trend) -> Markup:
    ratios = {name: [one.ratio if one else None for one in points[-LAST:]] for name, points in found.lines.items()}
    measured = {name: points for name, points in ratios.items() if any(points)}
    if not measured:
        return tag("p", "None of them measured device time.")
    scale = Scale.around([value for points in measured.values() for value in points if value])
    rows = []
    for name, points in measured.items():
        known = [value for value in points if value]
        label = f"{name}: {number(known[0], '.3f')} to {number(known[-1], '.3f')}"
        figure = tag("span", f"{known[-1]:.3f} ", tag("small", f"from {known[0]:.3f}"), class_="figure")
        rows.append(tag("div", tag("span", name), development(scale, points, label), figure, class_="row"))
    return tag("div", rows, class_="plot")


def _runs(runs: Sequence[Report]) -> Markup:
    rows = []
    for run in reversed(runs):
        word, _, reason = run.verdict().removeprefix("VERDICT: ").partition(" ")
        build = str((run.facts.get("backend") or {}).get("library_build_id") or "")
        rows.append((utc(run.started), str(run.run.get("id", "")), tag("code", build), join(status(word), " ", reason)))
    inside = table(("started", "run", "library build", "verdict"), rows)
    return tag("details", tag("summary", "the runs"), inside)


def _section(*inside: object) -> Markup:
    return tag("section", tag("h2", "History"), *inside, id="history")
