# SPDX-License-Identifier: MIT
"""Which cases a CPU can execute in about a second, and which need a GPU."""

from __future__ import annotations

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite

CPU = "cpu"
GPU = "gpu"
EXECUTED_BYTES = 10 << 20
EXECUTED_FLOPS = 1 << 29
"""A case that moves or computes more than this is not executed on a CPU."""


def size_of(suite: OpSuite, case: Case) -> str:
    """``"cpu"`` or ``"gpu"``; a call that has to be refused executes nothing and is ``"cpu"``."""
    if case.raises:
        return CPU
    small = suite.bytes_moved(case) <= EXECUTED_BYTES and suite.flops(case) <= EXECUTED_FLOPS
    return CPU if small else GPU
