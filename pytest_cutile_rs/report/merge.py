# SPDX-License-Identifier: MIT
"""Joins the shards of one run. The outcome is the report that the run would have written unsplit."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from collections.abc import Sequence
from functools import reduce
from typing import Any

from pytest_cutile_rs import record
from pytest_cutile_rs.report.identity import SHARD
from pytest_cutile_rs.report.identity import differing
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import ordered
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.tilegym import TilegymResults
from pytest_cutile_rs.result import CheckResult

_LISTED = 5
UNSPLIT = "1/1"
"""The shard that is all of a run."""


def merge(reports: Sequence[Report], names: Sequence[str] = ()) -> Report:
    """One report out of several.

    A shard that is missing (by the shards' own numbering) leaves the merged report incomplete.

    Args:
        reports: the shards, in any order.
        names: what messages call them; by default their numbers.

    Raises:
        ReportError: none is given; they are of different builds, drivers, GPU models or settings; or two of them hold
            the same result.
    """
    if not reports:
        raise ReportError("nothing to merge: name the summary.json of each shard.")
    called = list(names) or [f"report {number}" for number in range(1, len(reports) + 1)]
    _refuse_strangers(reports, called)
    results, options = ordered(_joined(reports, called)), _options(reports)
    parts = [report.tilegym for report in reports if report.tilegym is not None]
    first = min(reports, key=lambda report: report.started)
    return Report(
        options=options,
        results=results,
        seconds={name: value for report in reports for name, value in report.seconds.items()},
        complete=all(report.complete for report in reports) and not missing_shards(reports),
        started=first.started,
        finished=max(report.finished for report in reports),
        command=first.command,
        tilegym=reduce(TilegymResults.joined, parts) if parts else None,
        facts=_facts(reports),
        selected=sum(report.selected for report in reports),
        run=_run(reports, first.run),
        extra=_extra(reports, options, results),
    )


def shard(report: Report) -> tuple[int, int] | None:
    """Which part of how many a report is, as its run says; None for an unsplit run."""
    found = report.run.get("shard")
    if isinstance(found, Mapping):
        found = f"{found.get('index')}/{found.get('count')}"
    elif isinstance(found, (list, tuple)):
        found = "/".join(map(str, found))
    numbers = re.fullmatch(r"(\d+)/(\d+)", str(found or ""))
    return (int(numbers.group(1)), int(numbers.group(2))) if numbers and found != UNSPLIT else None


def missing_shards(reports: Sequence[Report]) -> list[str]:
    """The shards that nobody handed in, as ``i/n``."""
    present = [found for report in reports if (found := shard(report))]
    counts = {count for _, count in present}
    return [f"{i}/{n}" for n in sorted(counts) for i in range(1, n + 1) if (i, n) not in present]


def _refuse_strangers(reports: Sequence[Report], called: Sequence[str]) -> None:
    found = differing(list(reports), SHARD, unknown_fits=True)
    counts = [str(part[1]) if (part := shard(report)) else "unsplit" for report in reports]
    if len(set(counts)) > 1:
        found["number of shards"] = counts
    if found:
        lines = [
            f"  {name}: " + ", ".join(f"{value} ({who})" for who, value in zip(called, values, strict=True))
            for name, values in found.items()
        ]
        raise ReportError(
            f"these reports are not parts of one run, they differ in {', '.join(found)}:\n"
            + "\n".join(lines)
            + "\nRun the shards with the same build on the same kind of machine; "
            "`tilegym-rs report compare` sets two different runs side by side."
        )


def _joined(reports: Sequence[Report], called: Sequence[str]) -> list[CheckResult]:
    found: dict[str, CheckResult] = {}
    owner: dict[str, str] = {}
    twice: list[str] = []
    for report, who in zip(reports, called, strict=True):
        for result in report.results:
            if result.nodeid in found:
                twice.append(f"{result.nodeid} ({owner[result.nodeid]}, {who})")
            found[result.nodeid] = result
            owner[result.nodeid] = who
    if twice:
        more = f" and {len(twice) - _LISTED} more" if len(twice) > _LISTED else ""
        raise ReportError(
            f"{len(twice)} results are in two reports, and which one counts is not known: "
            f"{', '.join(twice[:_LISTED])}{more}. Give each shard once."
        )
    return list(found.values())


def _options(reports: Sequence[Report]) -> dict[str, Any]:
    """The common options; a selection that was split is joined, and the shard is gone."""
    merged: dict[str, Any] = {}
    for report in reports:
        for name, value in report.options.items():
            old = merged.setdefault(name, value)
            if isinstance(old, (list, tuple)) and isinstance(value, (list, tuple)):
                merged[name] = [*old, *(entry for entry in value if entry not in old)]
    if "shard" in merged:
        merged["shard"] = UNSPLIT
    return merged


def _facts(reports: Sequence[Report]) -> dict[str, Any]:
    """The first answer to each question; GPUs of several hosts are listed together."""
    merged: dict[str, Any] = {}
    for report in reports:
        for name, value in report.facts.items():
            old = merged.get(name)
            if name == "gpus" and old:
                merged[name] = [*old, *(gpu for gpu in value if gpu not in old)]
            elif isinstance(old, Mapping) and isinstance(value, Mapping):
                merged[name] = {**value, **{key: entry for key, entry in old.items() if entry is not None}}
            elif old is None:
                merged[name] = value
    return merged


def _extra(reports: Sequence[Report], options: Mapping[str, Any], results: Sequence[CheckResult]) -> dict[str, Any]:
    """Verdicts per op and the like anew, from all results; what hooks added from the first shard, lists joined."""
    merged: dict[str, Any] = {}
    for report in reports:
        for name, value in report.extra.items():
            old = merged.get(name)
            if isinstance(old, list) and isinstance(value, list):
                merged[name] = [*old, *(entry for entry in value if entry not in old)]
            elif old is None:
                merged[name] = value
    floor = record.joined_floor(report.extra.get("noise_floor") for report in reports)
    return merged | record.extras(options, results, floor)


def _run(reports: Sequence[Report], first: Mapping[str, Any]) -> dict[str, Any]:
    """The choices of the run, and an id that is the same for the same shards in any order."""
    names = sorted(str(report.run.get("id", "")) for report in reports)
    ident = hashlib.sha256(" ".join(names).encode()).hexdigest()[:8]
    unsplit = {"shard": UNSPLIT} if "shard" in first else {}
    return {**first, **unsplit, "id": ident, "merged_from": names}
