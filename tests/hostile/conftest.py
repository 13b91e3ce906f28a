# SPDX-License-Identifier: MIT
"""Hostile inputs: no test may take long or much memory. The builders are those of tests/tile_ir."""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "tile_ir")]

SLOWEST_S = 20.0
MOST_KIB = 1 << 20


@pytest.fixture(autouse=True)
def _bounded():
    """Each input is answered in a few seconds and in less than a gigabyte."""
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert time.perf_counter() - start < SLOWEST_S
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIB
