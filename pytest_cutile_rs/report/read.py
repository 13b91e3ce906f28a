# SPDX-License-Identifier: MIT
"""From ``summary.json`` back to a Report."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cutile_rs.report.model import SCHEMA_NAME
from pytest_cutile_rs.report.model import SCHEMA_VERSION
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import ordered
from pytest_cutile_rs.report.tilegym import TilegymResults
from pytest_cutile_rs.result import CheckResult
from tilegym_rs_backend.errors import TilegymRsError

_OWN = frozenset(
    {
        *("schema", "run", "complete", "selected", "started", "finished", "command", "options", "machine", "counts"),
        *("ops", "differences", "peer_only", "tilegym_tests", "results", "verdict"),
    }
)
SUMMARY = "summary.json"


class ReportError(TilegymRsError):
    """A report that cannot be read, or reports that do not belong together."""


def load(path: Path) -> Report:
    """The report in a file, or in the ``summary.json`` of a folder.

    Raises:
        ReportError: there is none, or it is not one of ours.
    """
    file = path / SUMMARY if path.is_dir() else path
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ReportError(f"{file}: no such report. `pytest --cutile-rs --cutile-rs-out DIR` writes one.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ReportError(f"{file} is not JSON ({error}). Give the summary.json of a run.") from None
    try:
        return from_dict(raw)
    except ReportError as error:
        raise ReportError(f"{file}: {error}") from None


def from_dict(raw: Any) -> Report:
    """The inverse of ``Report.to_dict``; what is derived (counts, groups, differences, verdict) is made again.

    Raises:
        ReportError: another schema, a newer version of it, or a part that is missing.
    """
    schema = raw.get("schema") if isinstance(raw, Mapping) else None
    name = schema.get("name") if isinstance(schema, Mapping) else None
    if not isinstance(raw, Mapping) or not isinstance(schema, Mapping) or name != SCHEMA_NAME:
        raise ReportError(f"this is no parity report: its schema is {name!r}, not {SCHEMA_NAME!r}.")
    if schema.get("version") != SCHEMA_VERSION:
        raise ReportError(
            f"version {schema.get('version')} of the report's schema, this package reads {SCHEMA_VERSION}. "
            "Use the tilegym-rs that wrote it, or run again."
        )
    try:
        return _report(raw)
    except (KeyError, TypeError, ValueError) as error:
        raise ReportError(f"a part of the report is missing or malformed ({type(error).__name__}: {error}).") from None


def _report(raw: Mapping[str, Any]) -> Report:
    tilegym = raw.get("tilegym_tests")
    results = ordered(CheckResult.from_dict(one) for one in raw["results"])
    return Report(
        options=raw["options"],
        results=results,
        seconds={str(one["id"]): float(one["seconds"]) for one in raw["results"]},
        complete=bool(raw["complete"]),
        started=seconds(raw["started"]),
        finished=seconds(raw["finished"]),
        command=raw["command"],
        tilegym=TilegymResults.from_dict(tilegym) if tilegym else None,
        facts=raw["machine"],
        selected=int(raw.get("selected", len(results))),
        run=raw.get("run", {}),
        extra={name: value for name, value in raw.items() if name not in _OWN},
    )


def seconds(text: str) -> float:
    """The inverse of `pytest_cutile_rs.report.model.utc`. Raises ValueError for another form."""
    return float(calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")))
