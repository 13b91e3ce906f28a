# SPDX-License-Identifier: MIT
"""One row per check, for spreadsheets."""

from __future__ import annotations

import csv
import io
from typing import Any

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import level
from pytest_cutile_rs.report.model import variants
from pytest_cutile_rs.result import CheckResult

_FIGURES = ("ratio", "low", "high", "counted", "threshold", "gbytes_per_s", "tflops")
_SIDES = ("rs", "py", "torch")
FIELDS = (
    *("check", "op", "dtype", "case", "status", "reason"),
    *_FIGURES,
    *(f"us_{side}" for side in _SIDES),
    *(f"host_us_{side}" for side in _SIDES),
    *("blocks", "variant", "structure", "seconds", "id", "size", "peer_only"),
)


def render(report: Report) -> str:
    """The run as CSV with a head line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for one in report.results:
        rest = [round(report.seconds.get(one.nodeid, 0.0), 4), one.nodeid, one.size, "yes" if one.peer_only else ""]
        writer.writerow([*_row(one), *rest])
    return out.getvalue()


def _row(one: CheckResult) -> list[Any]:
    times, host = one.data.get("us", {}), one.data.get("host_us", {})
    blocks = one.data.get("record", {}).get("blocks", {}).get("rs")
    return [
        *(one.check, one.op, one.dtype, one.case, one.status, one.reason),
        *(one.data.get(name) for name in _FIGURES),
        *(times.get(side) for side in _SIDES),
        *(host.get(side) for side in _SIDES),
        len(blocks) if blocks is not None else None,
        ", ".join(variants([one])),
        level(one),
    ]
