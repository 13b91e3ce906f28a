# SPDX-License-Identifier: MIT
"""What two reports must share to be joined or compared: pure look-ups in a report's facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_cutile_rs.report.model import Report

# What a measured time depends on besides the code under test.
MACHINE = ("GPU model", "driver", "arch")
# What has to be equal for results to be those of one run.
SHARD = (
    *("library build", "driver", "GPU model", "arch", "tileiras", "torch", "tilegym", "cuda-tile"),
    *("seed", "threshold", "timer", "variant"),
)


def identity(report: Report) -> dict[str, str]:
    """Names to values; a fact that the report does not have is empty."""
    facts, options = report.facts, report.options
    packages = _part(facts, "packages")
    backend = _part(facts, "backend")
    timers = {str(one.data["timer"]) for one in report.results if one.data.get("timer")}
    return {
        "library build": _text(facts.get("library_build_id") or backend.get("library_build_id")),
        "driver": _text(facts.get("driver")) or _of_gpus(facts, "driver"),
        "GPU model": _model(facts),
        "arch": _text(facts.get("arch") or options.get("arch")),
        "tileiras": _text(backend.get("tileiras")),
        **{name: _text(packages.get(name)) for name in ("torch", "tilegym", "cuda-tile")},
        "seed": _text(options.get("seed")),
        "threshold": _text(options.get("threshold")),
        "timer": ", ".join(sorted(timers)),
        "variant": _text(options.get("variant") or "auto"),
    }


def differing(reports: list[Report], names: tuple[str, ...], *, unknown_fits: bool = False) -> dict[str, list[str]]:
    """The facts among ``names`` that are not the same in all reports, with each report's value.

    With ``unknown_fits`` a report that does not know a fact (a shard whose checks never loaded the library) is no
    contradiction.
    """
    found = {}
    identities = [identity(report) for report in reports]
    for name in names:
        values = [each[name] for each in identities]
        if len({value for value in values if value or not unknown_fits}) > 1:
            found[name] = [value or "unknown" for value in values]
    return found


def machine_text(report: Report) -> str:
    """The machine in a few words."""
    known = identity(report)
    parts = [known["GPU model"], known["arch"], f"driver {known['driver']}" if known["driver"] else ""]
    return ", ".join(part for part in parts if part)


def _model(facts: Mapping[str, Any]) -> str:
    named = facts.get("gpu")
    if isinstance(named, Mapping):
        named = named.get("name")
    return _text(named) or _of_gpus(facts, "name") or "no GPU"


def _of_gpus(facts: Mapping[str, Any], key: str) -> str:
    return ", ".join(sorted({_text(gpu.get(key)) for gpu in facts.get("gpus") or ()}))


def _part(facts: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = facts.get(name)
    return found if isinstance(found, Mapping) else {}


def _text(value: Any) -> str:
    return "" if value is None else str(value)
