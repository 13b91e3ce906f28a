# SPDX-License-Identifier: MIT
"""The gate's own figures: the verdict on every op's mean, noise floor, waivers, and TileGym's protocol beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import number
from pytest_cutile_rs.report.page.markup import status
from pytest_cutile_rs.report.page.markup import table
from pytest_cutile_rs.report.page.markup import tag


def gating(report: Report) -> Markup:
    """The section; nothing where nothing was measured or waived."""
    inside = [
        _ops(report.extra.get("op_verdicts") or ()),
        _floor(report.extra.get("noise_floor")),
        _waivers(report.extra.get("waivers") or ()),
        _protocol(report.extra.get("protocol")),
    ]
    return tag("section", tag("h2", "The gate"), inside, id="gate") if any(inside) else Markup()


def _ops(found: Any) -> Markup:
    head = ("op", "verdict", "geomean [95 %]", "threshold", "cases", "worst case")
    rows = [
        (
            tag("a", one["op"], href=f"#op-{one['op']}"),
            status(one["verdict"]),
            _interval(one),
            number(one.get("threshold"), "g"),
            ", ".join(f"{count} {name}" for name, count in (one.get("counts") or {}).items()),
            str(one.get("worst") or ""),
        )
        for one in found
    ]
    return table(head, rows) if rows else Markup()


def _interval(one: Mapping[str, Any]) -> str:
    if one.get("geomean") is None:
        return "-"
    return f"{one['geomean']:.3f} [{number(one.get('low'), '.3f')}, {number(one.get('high'), '.3f')}]"


def _floor(found: Any) -> Markup:
    if not found:
        return Markup()
    rows = [
        (
            str(case["name"]),
            number(case.get("us"), ".2f", "-"),
            f"{case['ratio']:.4f} [{case['low']:.4f}, {case['high']:.4f}]",
            str(case["n"]),
            str(part.get("gpu") or ""),
        )
        for part in found["measured"]
        for case in part["cases"]
    ]
    text = f"Noise floor {found['relative']:.2%}: so far do two equal sides come apart on this machine."
    title = tag("summary", "the pairs it was measured with")
    return tag("div", tag("p", text), tag("details", title, table(("case", "us", "A/A", "blocks", "GPU"), rows)))


def _waivers(found: Any) -> Markup:
    head = ("waived", "down to", "until", "why", "used by")
    rows = [
        (
            tag("code", f"{one['op']}[{one['case']}]"),
            str(one["threshold"]),
            str(one["expires"]),
            str(one["reason"]),
            ", ".join(one["used"]) or f"nothing: {one['note']}",
        )
        for one in found
    ]
    return table(head, rows) if rows else Markup()


def _protocol(found: Any) -> Markup:
    if not found:
        return Markup()
    means = [number(found.get(name), ".3f", "-") for name in ("geomean", "paired_geomean")]
    figures = f"geomean {means[0]}, the gate's {means[1]}"
    lost = f", {found['errors']} cases without a time" if found.get("errors") else ""
    return tag("p", f"TileGym's protocol {found['name']} (never gates): {figures} over {found['cases']} cases{lost}.")
