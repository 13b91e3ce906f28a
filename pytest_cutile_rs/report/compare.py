# SPDX-License-Identifier: MIT
"""What changed between two runs: outcomes first, then device time. It tells; it never gates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cutile_rs.report.identity import MACHINE
from pytest_cutile_rs.report.identity import SHARD
from pytest_cutile_rs.report.identity import differing
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import level
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.table import Table
from pytest_cutile_rs.result import SEVERITY
from pytest_cutile_rs.result import CheckResult

HEAD = ("check", "case", "before", "after", "t_py/t_rs", "us (ours)", "change")


@dataclass(frozen=True)
class Change:
    """One result in two runs; ``before`` or ``after`` is None where only the other run has it."""

    nodeid: str
    before: CheckResult | None
    after: CheckResult | None

    @property
    def outcome(self) -> str:
        """``worse``, ``better``, ``new``, ``gone``, or empty when the outcome is the same."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        ranks = [SEVERITY.index(one.status) for one in (self.before, self.after)]
        if ranks[0] != ranks[1]:
            return "worse" if ranks[1] < ranks[0] else "better"
        return "structure" if level(self.before) != level(self.after) else ""

    @property
    def factor(self) -> float | None:
        """The ratio's change: above 1, the Rust side gained on cuTile Python. None without two measurements."""
        ratios = [one.data.get("ratio") if one else None for one in (self.before, self.after)]
        if not ratios[0] or not ratios[1]:
            return None
        return float(ratios[1]) / float(ratios[0])

    @property
    def clear(self) -> bool:
        """Whether the two intervals do not touch, so that the change is more than noise."""
        if self.before is None or self.after is None:
            return False
        ends = [one.data.get(name) for one in (self.before, self.after) for name in ("low", "high")]
        known = [float(end) for end in ends if end is not None]
        return len(known) == 4 and (known[1] < known[2] or known[3] < known[0])

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sort key: outcomes that got worse, other outcomes, then device time by the size of its change."""
        order = ("worse", "better", "structure", "gone", "new", "")
        return order.index(self.outcome), -abs(math.log(self.factor)) if self.factor else 0.0, self.nodeid

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "id": self.nodeid,
            "outcome": self.outcome,
            "before": self.before.status if self.before else None,
            "after": self.after.status if self.after else None,
            "ratio": [one.data.get("ratio") if one else None for one in (self.before, self.after)],
            "us": [one.data.get("us", {}).get("rs") if one else None for one in (self.before, self.after)],
            "factor": self.factor,
            "clear": self.clear,
        }


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side."""

    before: Report
    after: Report
    changes: tuple[Change, ...]
    differing: dict[str, list[str]]

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "before": self.before.run.get("id"),
            "after": self.after.run.get("id"),
            "differing": self.differing,
            "changes": [change.to_dict() for change in self.changes],
        }

    def notes(self) -> list[str]:
        """What the runs themselves differ in, and how many results are as before."""
        found = [f"{name}: {values[0]} before, {values[1]} after" for name, values in self.differing.items()]
        for name, report in (("before", self.before), ("after", self.after)):
            if not report.complete:
                found.append(f"the run {name} is incomplete")
        same = sum(not change.outcome for change in self.changes)
        return [*found, f"{same} of {len(self.changes)} results have the same outcome"]

    def table(self, everything: bool = False) -> Table:
        """The changes as rows; without ``everything`` only those that say something."""
        told = [one for one in self.changes if everything or one.outcome or one.clear]
        return Table(HEAD, [_row(change) for change in told])


def compare(before: Report, after: Report, *, across_machines: bool = False) -> Comparison:
    """Compare two runs, sorted by change.

    Raises:
        ReportError: they ran on different machines, and nobody said that this is meant.
    """
    machines = differing([before, after], MACHINE)
    if machines and not across_machines:
        facts = "; ".join(f"{name}: {values[0]} and {values[1]}" for name, values in machines.items())
        raise ReportError(
            f"the runs are of different machines ({facts}), so their times do not compare. "
            "Compare runs of one machine, or pass --across-machines to see them all the same."
        )
    sides = [{result.nodeid: result for result in report.results} for report in (before, after)]
    names = sorted({*sides[0], *sides[1]})
    changes = sorted((Change(name, sides[0].get(name), sides[1].get(name)) for name in names), key=lambda one: one.rank)
    wanted = tuple(dict.fromkeys((*MACHINE, *SHARD)))
    return Comparison(before, after, tuple(changes), differing([before, after], wanted))


def _row(change: Change) -> Sequence[str]:
    one = change.after or change.before
    assert one is not None
    sides = (change.before, change.after)
    ratios = [_number(side.data.get("ratio") if side else None, "{:.3f}") for side in sides]
    times = [_number(side.data.get("us", {}).get("rs") if side else None, "{:.2f}") for side in sides]
    return (
        one.check,
        f"{one.op}[{one.case}]",
        *(_state(side) for side in sides),
        _step(ratios),
        _step(times),
        _words(change),
    )


def _state(side: CheckResult | None) -> str:
    if side is None:
        return "-"
    return f"{side.status} {level(side)}".rstrip()


def _words(change: Change) -> str:
    parts = [change.outcome]
    if change.factor:
        parts.append(f"{change.factor - 1:+.1%}{'' if change.clear else ' (within the intervals)'}")
    return ", ".join(part for part in parts if part)


def _step(values: Sequence[str]) -> str:
    return " -> ".join(values) if set(values) != {"-"} else ""


def _number(value: Any, form: str) -> str:
    return form.format(value) if value is not None else "-"
