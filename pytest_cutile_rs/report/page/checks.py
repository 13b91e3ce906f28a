# SPDX-License-Identifier: MIT
"""What each of the four checks found out about one case."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any

from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import facts
from pytest_cutile_rs.report.page.markup import flat
from pytest_cutile_rs.report.page.markup import join
from pytest_cutile_rs.report.page.markup import number
from pytest_cutile_rs.report.page.markup import table
from pytest_cutile_rs.report.page.markup import tag
from pytest_cutile_rs.report.page.markup import text
from pytest_cutile_rs.report.page.strips import samples
from pytest_cutile_rs.result import FAILING
from pytest_cutile_rs.result import CheckResult

TITLES = {"numerics": "Numbers", "ir": "Tile IR", "sass": "Machine code", "perf": "Device time"}
_SIDES = {"rs": "ours", "py": "cuTile Python", "torch": "torch"}
_CODE = (
    *("kernel", "grid", "hints", "text_bytes", "registers", "frame_bytes", "shared_bytes", "local_bytes"),
    *("constant_bytes", "barriers"),
)


def figures(result: CheckResult) -> Markup:
    """The figures of a check, and its long message where it failed."""
    known: dict[str, Callable[[Mapping[str, Any]], Markup]] = {
        "numerics": _numbers,
        "ir": _tile_ir,
        "sass": _machine_code,
        "perf": _device_time,
    }
    shown = known[result.check](result.data) if result.data else Markup()
    message = result.details if result.status in FAILING else ""
    return join(shown, tag("pre", message, class_="message") if message else None)


def _numbers(data: Mapping[str, Any]) -> Markup:
    sides = [(name, data.get(key)) for name, key in (("ours", "ours"), ("cuTile Python", "cutile_python"))]
    errors: dict[str, Mapping[str, Any]] = {name: side for name, side in sides if isinstance(side, Mapping)}
    shown = _columns("error", errors) if errors else Markup()
    return join(shown, facts(flat(data, ("ours", "cutile_python"))))


def _tile_ir(data: Mapping[str, Any]) -> Markup:
    parts: list[object] = []
    for row in data.get("launches", ()):
        names = " / ".join(str(row.get(side, {}).get("kernel", "?")) for side in ("ours", "theirs"))
        parts.append(tag("p", tag("code", names), f" {row.get('verdict', '')}"))
        found = [
            (tag("code", one.get("category", "")), *(str(one.get(name, "")) for name in ("what", "ours", "theirs")))
            for one in row.get("differences", ())
        ]
        if found:
            parts.append(table(("category", "what", "ours", "cuTile Python"), found))
        more = [*row.get("launch_differences", ()), *row.get("remarks", ())]
        if more:
            parts.append(tag("ul", [tag("li", one) for one in more]))
        if row.get("side_by_side"):
            inside = tag("pre", row["side_by_side"], class_="wide")
            parts.append(tag("details", tag("summary", "both kernels side by side"), inside))
    return join(parts, facts(flat(data, ("launches", "surplus"))))


def _machine_code(data: Mapping[str, Any]) -> Markup:
    parts: list[object] = []
    for row in data.get("launches", ()):
        sides = {name: row.get(key, {}) for name, key in (("ours", "ours"), ("cuTile Python", "theirs"))}
        parts.append(tag("p", str(row.get("verdict", ""))))
        parts.append(_columns("figure", sides, _CODE))
        parts.append(facts(flat(row, ("ours", "theirs", "verdict"))))
    return join(parts, facts(flat(data, ("launches",))))


def _device_time(data: Mapping[str, Any]) -> Markup:
    times, host = data.get("us") or {}, data.get("host_us") or {}
    record = data.get("record") or {}
    rows = [
        (
            _SIDES.get(side, side),
            number(times.get(side), ".2f", "-"),
            number(host.get(side), ".1f", "-"),
            ", ".join(record.get("kernels", {}).get(side, ())) or "-",
        )
        for side in (*_SIDES, *sorted(set(times) - set(_SIDES)))
        if side in times
    ]
    shown = table(("side", "device us", "host us", "kernels"), rows) if rows else Markup()
    blocks = record.get("blocks") or {}
    rest = facts(flat(data, ("us", "host_us", "record")))
    measured = facts(flat(record, ("blocks", "kernels", "host_us", "name", "seed")))
    how = tag("details", tag("summary", "how it was measured"), measured) if measured else None
    return join(shown, _samples(blocks, data), rest, how)


def _samples(blocks: Mapping[str, list[float]], data: Mapping[str, Any]) -> Markup:
    ours, theirs = blocks.get("rs") or [], blocks.get("py") or []
    if not ours or len(ours) != len(theirs):
        return Markup()
    ratios = [b / a for a, b in zip(ours, theirs, strict=True) if a]
    if not ratios:
        return Markup()
    marks = {name: float(data[key]) for name, key in (("median", "ratio"), ("threshold", "threshold")) if data.get(key)}
    span = f"ratio per block: {min(ratios):.3f} to {max(ratios):.3f}"
    times = {side: list(values) for side, values in blocks.items() if values}
    legend = [
        join(tag("span", _SIDES.get(side, side), class_=f"key {side}"), f" {min(values):.2f} to {max(values):.2f}; ")
        for side, values in times.items()
    ]
    return tag(
        "div",
        tag("figure", samples({"ratio": ratios}, marks, span), _caption(span)),
        tag("figure", samples(times, {}, "us per block and side"), _caption("us per block: ", legend)),
        class_="figures",
    )


def _caption(*inside: object) -> Markup:
    return tag("figcaption", *inside)


def _columns(title: str, sides: Mapping[str, Mapping[str, Any]], first: tuple[str, ...] = ()) -> Markup:
    """Figures of several sides beside each other, ``first`` ones first."""
    names = dict.fromkeys((*first, *(name for side in sides.values() for name in side)))
    rows = []
    for name in names:
        values = [text(side.get(name)) for side in sides.values()]
        if any(values):
            rows.append([name, *values])
    return table((title, *sides), rows)
