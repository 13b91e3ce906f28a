# SPDX-License-Identifier: MIT
"""The table at the end of a run: per op and dtype, worst first, then one line per kind of difference."""

from __future__ import annotations

from collections import Counter

from pytest_cutile_rs import record
from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.report.model import Group
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import level
from pytest_cutile_rs.report.model import op_verdict
from pytest_cutile_rs.report.table import Table
from pytest_cutile_rs.result import AMBIGUOUS
from pytest_cutile_rs.result import FAILING
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import WAIVED
from pytest_cutile_rs.result import CheckResult

Line = tuple[str, dict[str, bool]]
HEAD = ("op", "dtype", "variant", "numerics", "Tile IR", "machine code", "t_py/t_rs")


def rows(report: Report) -> list[tuple[str, ...]]:
    """The table's cells, without its head."""
    return [
        (
            group.op,
            group.dtype,
            ", ".join(group.variants()) or "-",
            _counts(group.of("numerics")),
            _structure(group.of("ir")),
            _structure(group.of("sass")),
            _ratio(group),
        )
        for group in report.groups()
    ]


def lines(report: Report, verbosity: int = 0) -> list[Line]:
    """The summary's lines, each with pytest's markup arguments."""
    found: list[Line] = []
    if report.results:
        table = Table(HEAD, rows(report)).lines()
        found += [(text, _style(text, number)) for number, text in enumerate(table)]
    for (check, category), (text, where) in report.differences().items():
        found.append((f"{check} difference {category}: {len(where)} cases, such as {where[0]}: {text}", {}))
    for (check, reason), count in sorted(report.not_run().items()):
        found.append((f"not run: {count} {check}: {reason}", {"yellow": True}))
    if verbosity > 0:
        found += [(f"{one.nodeid}: {one.reason}", {}) for one in report.results if one.check == "perf"]
    for check in CHECKS:
        found += [(f"{op} {check} {op_verdict(results)}", {}) for op, results in report.by_op(check).items()]
    if report.tilegym:
        tilegym = report.tilegym
        counts = f"{tilegym.passed} passed, {len(tilegym.failed)} failed, {sum(tilegym.skipped.values())} skipped"
        found.append((f"TileGym's tests: {counts}", {"red": bool(tilegym.failed)}))
    found += record.lines(report.extra)
    if not report.complete:
        found.append(("the run is incomplete: not every selected check ended", {"yellow": True}))
    return found


def _style(text: str, number: int) -> dict[str, bool]:
    if number == 0:
        return {"bold": True}
    return {"red": True} if any(name in text for name in FAILING) else {}


def _counts(results: list[CheckResult]) -> str:
    if not results:
        return "-"
    aside = Counter(one.status for one in results if one.peer_only)
    results = [one for one in results if not one.peer_only]
    counts = Counter(one.status for one in results)
    if aside:
        return ", ".join([*([_counts(results)] if results else []), _aside(aside)])
    if set(counts) == {NOT_RUN}:
        return "not run"
    bad = [f"{counts[name]} {name}" for name in (*sorted(FAILING), AMBIGUOUS, WAIVED) if counts[name]]
    idle = f" ({counts[NOT_RUN]} not run)" if counts[NOT_RUN] else ""
    return f"{counts[PASS]}/{len(results) - counts[NOT_RUN]}{' ' if bad else ''}{', '.join(bad)}{idle}"


def _aside(counts: Counter[str]) -> str:
    """What was said about cuTile Python's kernels alone; it counts for none of ours."""
    bad = [f"{counts[name]} {name}" for name in sorted(FAILING) if counts[name]]
    idle = f" ({counts[NOT_RUN]} not run)" if counts[NOT_RUN] else ""
    ran = sum(counts.values()) - counts[NOT_RUN]
    return f"peer only {counts[PASS]}/{ran}{' ' if bad else ''}{', '.join(bad)}{idle}"


def _structure(results: list[CheckResult]) -> str:
    levels = Counter(name for one in results if (name := level(one)))
    text = ", ".join(f"{count} {level}" for level, count in sorted(levels.items()))
    counted = _counts(results)
    return f"{counted}: {text}" if text and counted not in ("-", "not run") else counted


def _ratio(group: Group) -> str:
    mean, low = group.ratios()
    if mean is None or low is None:
        return _counts(group.of("perf"))
    bad = Counter(one.status for one in group.of("perf") if one.status in (*FAILING, AMBIGUOUS, WAIVED))
    return f"{mean:.3f} (min {low:.3f})" + "".join(f" {count} {status}" for status, count in sorted(bad.items()))
