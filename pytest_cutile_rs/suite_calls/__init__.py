# SPDX-License-Identifier: MIT
"""Calls of the ops of ``tilegym.suites``, as data: small inputs that make their kernels launch.

These ops have no reference and no tolerance here: what is proven of them is that the translated kernels are their
originals, in machine code and, executed on the CPU, bit by bit.
"""

from __future__ import annotations

import importlib

from pytest_cutile_rs.suite_calls._op import Row
from pytest_cutile_rs.suite_calls._op import SuiteOp

SUITES = ("flashinfer", "liger", "unsloth")
"""Of ``tilegym.suites``; each has a file here with its rows."""


def suite_ops() -> dict[str, SuiteOp]:
    """Every op of the suites by the dispatcher's name (``"liger.geglu"``), sorted."""
    rows: dict[str, list[Row]] = {}
    for suite in SUITES:
        for row in importlib.import_module(f"{__name__}.{suite}").ROWS:
            rows.setdefault(row.op, []).append(row)
    return {name: SuiteOp(name, tuple(rows[name])) for name in sorted(rows)}


__all__ = ["SUITES", "Row", "SuiteOp", "suite_ops"]
