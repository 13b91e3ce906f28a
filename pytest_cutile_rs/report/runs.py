# SPDX-License-Identifier: MIT
"""Saved runs: ``<out>/runs/<started>-<id>.json``, one report each, never changed afterwards."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import utc
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.read import load

FOLDER = "runs"


def new_id() -> str:
    """An id for a run, the same for no two."""
    return uuid.uuid4().hex[:8]


def file_name(report: Report) -> str:
    """Sorts by time."""
    ident = re.sub(r"\W", "", str(report.run.get("id") or "run"))
    return f"{utc(report.started).translate(str.maketrans('', '', '-:'))}-{ident}.json"


def saved(out: Path) -> list[Path]:
    """The saved runs of a report folder, oldest first."""
    return sorted((out / FOLDER).glob("*.json"))


def history(out: Path) -> list[Report]:
    """Those that can be read; one that cannot must not cost a page or a table."""
    found = []
    for path in saved(out):
        try:
            found.append(load(path))
        except (ReportError, OSError):
            continue
    return found


def find(name: str, out: Path) -> Report:
    """A run by file, folder, the id of a saved run, or ``last`` and ``last~N`` among the saved ones.

    Raises:
        ReportError: nothing, or more than one, is called so.
    """
    path = Path(name)
    if path.exists():
        return load(path)
    files = saved(out)
    back = re.fullmatch(r"last(?:~(\d+))?", name)
    if back:
        index = int(back.group(1) or 0)
        matching = files[-1 - index : len(files) - index] if index < len(files) else []
    else:
        matching = [file for file in files if name and name in file.stem]
    if len(matching) == 1:
        return load(matching[0])
    what = f"{len(matching)} saved runs match" if matching else "there is no such file, and no saved run matches"
    raise ReportError(
        f"{name}: {what}. Saved in {out / FOLDER}: {_names(files)}. `pytest --cutile-rs --cutile-rs-save` saves a run."
    )


def by_time(reports: Iterable[Report]) -> list[Report]:
    """Oldest first, each run once."""
    unique = {(report.started, str(report.run.get("id"))): report for report in reports}
    return [unique[key] for key in sorted(unique)]


def _names(files: Sequence[Path], most: int = 6) -> str:
    listed = [file.stem for file in files[-most:]]
    more = f"{len(files) - most} more, " if len(files) > most else ""
    return more + ", ".join(listed) if listed else "none"
