# SPDX-License-Identifier: MIT
"""The report of one run as data; every format is made from it. Pure: no pytest objects, no torch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

from pytest_cutile_rs import record
from pytest_cutile_rs.case import CHECKS
from pytest_cutile_rs.report.tilegym import TilegymResults
from pytest_cutile_rs.result import AMBIGUOUS
from pytest_cutile_rs.result import CHECKED
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import SEVERITY
from pytest_cutile_rs.result import WAIVED
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.result import fails
from pytest_cutile_rs.result import verdict_line
from pytest_cutile_rs.result import worst

SCHEMA_NAME = "tilegym-rs.parity"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Report:
    """Everything a run found out.

    Attributes:
        options: of the run, JSON types.
        results: in the order of ``ordered``.
        seconds: per id.
        complete: False when the run ended before all selected items did.
        started, finished: seconds since the epoch.
        command: pytest's arguments.
        tilegym: results of TileGym's own tests, None when they were not asked for.
        facts: machine, versions, architecture.
        selected: how many items were to be run.
        run: ``id``, and where they apply ``shard`` and ``merged_from``.
        extra: what `pytest_cutile_rs.record` and hooks put beside all this.
    """

    options: Mapping[str, Any]
    results: Sequence[CheckResult]
    seconds: Mapping[str, float]
    complete: bool
    started: float
    finished: float
    command: Sequence[str]
    tilegym: TilegymResults | None
    facts: Mapping[str, Any]
    selected: int = 0
    run: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The versioned JSON form; see `pytest_cutile_rs.report.schema`."""
        return {
            "schema": {"name": SCHEMA_NAME, "version": SCHEMA_VERSION},
            "run": dict(self.run),
            "complete": self.complete,
            "selected": self.selected,
            "started": utc(self.started),
            "finished": utc(self.finished),
            "command": list(self.command),
            "options": dict(self.options),
            "machine": dict(self.facts),
            "counts": dict(Counter(result.status for result in self.results if not result.peer_only)),
            "peer_only": dict(Counter(result.status for result in self.results if result.peer_only)),
            "ops": [group.to_dict() for group in self.groups()],
            "differences": [
                {"check": check, "category": category, "count": len(where), "example": where[0], "text": text}
                for (check, category), (text, where) in self.differences().items()
            ],
            "tilegym_tests": self.tilegym.to_dict() if self.tilegym else None,
            "results": [
                result.to_dict() | {"id": result.nodeid, "seconds": round(self.seconds.get(result.nodeid, 0.0), 4)}
                for result in self.results
            ],
            "verdict": self.verdict(),
            **self.extra,
        }

    def groups(self) -> list[Group]:
        """Results by op and dtype, worst first."""
        found: dict[tuple[str, str], list[CheckResult]] = {}
        for result in self.results:
            found.setdefault((result.op, result.dtype), []).append(result)
        groups = [Group(op, dtype, tuple(results)) for (op, dtype), results in found.items()]
        return sorted(groups, key=lambda group: group.rank)

    def by_op(self, check: str) -> dict[str, list[CheckResult]]:
        """Results of one check, by op."""
        found: dict[str, list[CheckResult]] = {}
        for result in self.results:
            if result.check == check:
                found.setdefault(result.op, []).append(result)
        return dict(sorted(found.items()))

    def differences(self) -> dict[tuple[str, str], tuple[str, list[str]]]:
        """Per check and difference category: a text of the first case, and the ids of all cases that have it."""
        found: dict[tuple[str, str], tuple[str, list[str]]] = {}
        for result in self.results:
            for difference in _named_differences(result):
                key = (result.check, str(difference["category"]))
                text = f"{difference['what']}: ours {difference['ours']}, theirs {difference['theirs']}"
                _, where = found.setdefault(key, (text, []))
                if result.nodeid not in where:
                    where.append(result.nodeid)
        return dict(sorted(found.items()))

    def not_run(self) -> Counter[tuple[str, str]]:
        """How often a check did not run, by check and reason."""
        return Counter((result.check, result.reason) for result in self.results if result.status == NOT_RUN)

    def shortfall(self) -> str:
        """Why the run as a whole proves too little; empty when it proves something."""
        if self.options.get("enabled"):
            answered = sum(result.status in CHECKED for result in self.results)
            wanted = int(self.options.get("min_cases", 1))
            if answered < wanted:
                return f"{answered} checks gave an answer, at least {wanted} have to"
            if reason := record.unmeasured(self.results):
                return reason
        if self.tilegym is not None and not self.tilegym.ran:
            return "none of TileGym's tests ran"
        return ""

    def fails(self, result: CheckResult) -> bool:
        """Whether a result fails this run, by its choice for AMBIGUOUS."""
        return fails(result.status, str(self.options.get("ambiguous", "xfail")))

    def verdict(self) -> str:
        """The run's last line. A part that did not run is named and never counts as a PASS."""
        failing = Counter(result.check for result in self.results if self.fails(result))
        failed = [f"{failing[check]} {check}" for check in CHECKS if failing[check]]
        if self.tilegym and self.tilegym.failed:
            failed.append(f"{len(self.tilegym.failed)} of TileGym's tests")
        if failed:
            return verdict_line(FAIL, f"failed: {', '.join(failed)}")
        if slow := record.failing_ops(self.extra):
            return verdict_line(FAIL, "; ".join(slow))
        passed = Counter(result.check for result in self.results if result.status == PASS and not result.peer_only)
        text = [f"{passed[check]} {check}" for check in CHECKS if passed[check]]
        if self.tilegym and self.tilegym.passed:
            text.append(f"{self.tilegym.passed} of TileGym's tests")
        idle = Counter(result.check for result in self.results if result.status not in CHECKED)
        rest = [f"{idle[check]} {check}" for check in CHECKS if idle[check]]
        statuses = Counter(result.status for result in self.results)
        apart = "".join(f"; {statuses[name]} {name}" for name in (AMBIGUOUS, WAIVED) if statuses[name])
        aside = sum(result.status == PASS and result.peer_only for result in self.results)
        apart += f"; cuTile Python only: {aside} numerics" if aside else ""
        nothing = f"nothing of ours {'passed' if apart else 'was checked'}"
        shortfall = self.shortfall() or ("" if text else nothing)
        if shortfall:
            return verdict_line(NOT_RUN, f"{shortfall}{apart}")
        note = apart + (f"; not run: {', '.join(rest)}" if rest else "")
        note += "" if self.complete else "; incomplete"
        return verdict_line(PASS if self.complete else NOT_RUN, f"passed: {', '.join(text)}{note}")


@dataclass(frozen=True)
class Group:
    """All results of one op in one dtype."""

    op: str
    dtype: str
    results: tuple[CheckResult, ...]

    def of(self, check: str) -> list[CheckResult]:
        """Those of one check."""
        return [result for result in self.results if result.check == check]

    @property
    def rank(self) -> tuple[int, float, str, str]:
        """Sort key: worst status first, then the lowest ratio."""
        status = worst(result.status for result in self.results if result.status != NOT_RUN)
        return SEVERITY.index(status), self.ratios()[1] or math.inf, self.op, self.dtype

    def ratios(self) -> tuple[float | None, float | None]:
        """Geometric mean and minimum of t_cutile_python / t_cutile_rs; None without a measurement."""
        return ratios(self.of("perf"))

    def variants(self) -> tuple[str, ...]:
        """What ran on our side: ``native``, ``ported``; ``peer only`` where cuTile Python's side alone was judged."""
        return variants(self.results)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        mean, low = self.ratios()
        checks = {check: Counter(one.status for one in found) for check in CHECKS if (found := self.of(check))}
        return {
            "op": self.op,
            "dtype": self.dtype,
            "variants": list(self.variants()),
            "checks": {check: dict(counts) for check, counts in checks.items()},
            "ratio_geomean": mean,
            "ratio_min": low,
        }


def ratios(results: Iterable[CheckResult]) -> tuple[float | None, float | None]:
    """Geometric mean and minimum over the perf results that have a ratio."""
    found = [float(one.data["counted"]) for one in results if one.data.get("counted")]
    if not found:
        return None, None
    return math.exp(sum(map(math.log, found)) / len(found)), min(found)


def variants(results: Iterable[CheckResult]) -> tuple[str, ...]:
    """The kinds of kernel that the results tell of; empty where none was seen."""
    found = set()
    for result in results:
        if result.peer_only:
            found.add("peer only")
        elif result.data.get("variant"):
            found.add(str(result.data["variant"]))
    return tuple(sorted(found))


def level(result: CheckResult) -> str:
    """How close the structure came: ``equal``, ``identical`` or ``different``; empty where nothing was compared."""
    for name, word in (("equal", "equal"), ("identical", "identical")):
        if name in result.data:
            return word if result.data[name] else "different"
    return ""


def _named_differences(result: CheckResult) -> Iterator[dict[str, Any]]:
    for launch in result.data.get("launches", ()):
        yield from launch.get("differences", ())


def op_verdict(results: Sequence[CheckResult]) -> str:
    """The verdict line of one check of one op."""
    status = worst(result.status for result in results)
    counts = Counter(result.status for result in results)
    text = ", ".join(f"{counts[name]} {name}" for name in SEVERITY if counts[name])
    bad = next((result for result in results if result.status == status), None)
    if status == PASS or bad is None:
        alone = sum(result.peer_only for result in results)
        return verdict_line(status, f"{'cuTile Python only: ' if alone else ''}{len(results)} cases")
    return verdict_line(status, f"{text} of {len(results)} cases; {bad.case}: {bad.reason}")


def worst_first(results: Iterable[CheckResult]) -> list[CheckResult]:
    """By severity, then the lowest ratio first."""

    def rank(result: CheckResult) -> tuple[int, float, str]:
        return SEVERITY.index(result.status), float(result.data.get("counted") or math.inf), result.nodeid

    return sorted(results, key=rank)


def ordered(results: Iterable[CheckResult]) -> list[CheckResult]:
    """By check, then by id: the same order however the run was spread."""
    return sorted(results, key=lambda result: (CHECKS.index(result.check), result.nodeid))


def utc(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
