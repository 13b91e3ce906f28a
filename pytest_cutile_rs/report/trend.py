# SPDX-License-Identifier: MIT
"""How ops developed over saved runs of one machine. It tells; it never gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cutile_rs.report.identity import MACHINE
from pytest_cutile_rs.report.identity import differing
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import ratios
from pytest_cutile_rs.report.model import utc
from pytest_cutile_rs.report.runs import by_time
from pytest_cutile_rs.report.table import Table
from pytest_cutile_rs.result import FAILING
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import CheckResult


@dataclass(frozen=True)
class Point:
    """One op (or one case of it) in one run."""

    ratio: float | None
    passed: int
    failed: int

    @property
    def text(self) -> str:
        """A table's cell."""
        parts = [f"{self.ratio:.3f}"] if self.ratio is not None else []
        parts += [f"{self.failed} failed"] if self.failed else []
        return " ".join(parts) or f"{self.passed} ok"


@dataclass(frozen=True)
class Trend:
    """Lines over runs, oldest first; None where a run does not have the line."""

    runs: tuple[Report, ...]
    lines: dict[str, tuple[Point | None, ...]]
    left_out: int = 0

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "runs": [
                {"id": run.run.get("id"), "started": utc(run.started), "verdict": run.verdict()} for run in self.runs
            ],
            "lines": {name: [vars(one) if one else None for one in points] for name, points in self.lines.items()},
            "left_out": self.left_out,
        }

    def table(self, last: int = 8) -> Table:
        """The newest runs as columns, and the change from the first to the last of them."""
        shown = self.runs[-last:]
        head = ("t_py/t_rs", *(utc(run.started)[:16].replace("T", " ") for run in shown), "change")
        rows = []
        for name, points in self.lines.items():
            cut = points[-last:]
            rows.append((name, *(one.text if one else "" for one in cut), _change(cut)))
        return Table(head, rows)


def trend(reports: Sequence[Report], *, op: str = "", by_case: bool = False, across_machines: bool = False) -> Trend:
    """The development of every op and dtype.

    Args:
        reports: in any order, each run counts once.
        op: this op alone.
        by_case: a line per case instead of one per op and dtype.
        across_machines: also runs on other machines than the newest one's; else they are counted in ``left_out``.
    """
    runs = by_time(reports)
    kept = [run for run in runs if across_machines or not differing([run, runs[-1]], MACHINE)]
    found: dict[str, dict[int, list[CheckResult]]] = {}
    for index, run in enumerate(kept):
        for one in run.results:
            if not op or one.op == op:
                name = f"{one.op}[{one.case}]" if by_case else f"{one.op} {one.dtype}"
                found.setdefault(name, {}).setdefault(index, []).append(one)
    lines = {
        name: tuple(_point(there[index]) if index in there else None for index in range(len(kept)))
        for name, there in sorted(found.items())
    }
    return Trend(tuple(kept), lines, len(runs) - len(kept))


def _point(results: Sequence[CheckResult]) -> Point:
    mean, _ = ratios([one for one in results if one.check == "perf"])
    statuses = [one.status for one in results]
    return Point(mean, statuses.count(PASS), sum(status in FAILING for status in statuses))


def _change(points: Sequence[Point | None]) -> str:
    measured = [one.ratio for one in points if one and one.ratio]
    return f"{measured[-1] / measured[0] - 1:+.1%}" if len(measured) > 1 else ""
