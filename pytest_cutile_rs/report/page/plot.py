# SPDX-License-Identifier: MIT
"""Device time of every measured case: the ratio and its interval, lowest first."""

from __future__ import annotations

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import join
from pytest_cutile_rs.report.page.markup import tag
from pytest_cutile_rs.report.page.strips import Scale
from pytest_cutile_rs.report.page.strips import interval
from pytest_cutile_rs.result import CheckResult


def ratios(report: Report) -> Markup:
    """The plot; nothing when nothing was measured."""
    found = [one for one in report.results if one.check == "perf" and one.data.get("ratio")]
    if not found:
        return Markup()
    found.sort(key=lambda one: (float(one.data["ratio"]), one.nodeid))
    threshold = _threshold(report, found)
    ends = [float(value) for one in found for value in _interval(one)]
    scale = Scale.around([*ends, threshold])
    axis = tag(
        "div",
        [tag("span", f"{at:.3g}", style=f"left:{scale.at(at)}%") for at in scale.ticks()],
        class_="axis",
        aria_hidden="true",
    )
    head = tag("div", tag("span", "case"), axis, tag("span", "t_py/t_rs [95 %]"), class_="row head")
    rows = [_row(one, scale, threshold) for one in found]
    text = join(
        "t_cutile_python / t_cutile_rs: above 1 the Rust side is faster. ",
        tag("span", "solid line", class_="key one"),
        ": 1. ",
        tag("span", "dashed", class_="key threshold"),
        f": the threshold, {threshold:g}.",
    )
    body = tag("div", head, rows, class_="plot")
    return tag("section", tag("h2", "Device time"), tag("p", text), body, id="ratios")


def _row(one: CheckResult, scale: Scale, threshold: float) -> Markup:
    low, value, high = _interval(one)
    own = float(one.data.get("threshold") or threshold)
    name = f"{one.op}[{one.case}]"
    return tag(
        "div",
        tag("a", name, href=f"#{case_id(one.op, one.case)}"),
        interval(scale, low, value, high, {"one": 1.0, "threshold": own}, one.status.lower()),
        tag("span", f"{value:.3f} ", tag("small", f"[{low:.3f}, {high:.3f}]"), class_="figure"),
        class_="row",
    )


def _interval(one: CheckResult) -> tuple[float, float, float]:
    value = float(one.data["ratio"])
    return float(one.data.get("low") or value), value, float(one.data.get("high") or value)


def _threshold(report: Report, found: list[CheckResult]) -> float:
    given = report.options.get("threshold") or found[0].data.get("threshold") or 0.95
    return float(given)


def case_id(op: str, case: str) -> str:
    """The anchor of a case on the page."""
    return f"case-{op}-{case}"
