# SPDX-License-Identifier: MIT
"""The real clock; a process of its own, because a process has one CUPTI session and pytest may hold it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.gpu
def test_equal_sides_are_equal_and_seven_percent_fails() -> None:
    """Also that driver and runtime launches are seen in one session, and that 2 % does not fail."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, str(ROOT / "benchmarks" / "cupti_smoke.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if "NO-DATA no_cupti" in done.stdout:
        pytest.skip(done.stdout.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A/A driver API launch" in done.stdout
