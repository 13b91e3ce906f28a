# SPDX-License-Identifier: MIT
"""The C program of tests/c under valgrind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cargo
RUN = Path(__file__).parents[1] / "c" / "run.sh"


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="no valgrind on PATH")
def test_the_c_program_under_valgrind() -> None:
    from tilegym_rs_backend.build import ensure_library

    done = subprocess.run(
        [str(RUN), str(ensure_library()), "valgrind"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ok"
    assert "==" not in done.stderr, done.stderr
    print("C program under valgrind: no error, no leak")
