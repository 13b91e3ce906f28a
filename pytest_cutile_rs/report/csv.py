# SPDX-License-Identifier: MIT
"""One row per check, for spreadsheets."""

from __future__ import annotations

import csv
import io

from pytest_cutile_rs.report.model import Report

FIELDS = (
    *("check", "op", "dtype", "case", "status", "reason"),
    *("ratio", "low", "high", "us_rs", "us_py", "us_torch", "seconds", "size", "peer_only"),
)


def render(report: Report) -> str:
    """The run as CSV with a head line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for one in report.results:
        times = one.data.get("us", {})
        figures = [one.data.get(name) for name in ("ratio", "low", "high")]
        figures += [times.get(side) for side in ("rs", "py", "torch")]
        figures.append(round(report.seconds.get(one.nodeid, 0.0), 4))
        figures += [one.size, "yes" if one.peer_only else ""]
        writer.writerow([one.check, one.op, one.dtype, one.case, one.status, one.reason, *figures])
    return out.getvalue()
