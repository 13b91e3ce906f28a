# SPDX-License-Identifier: MIT
"""The C interface as a C program uses it: the header it finds, the library it links, the codes it gets."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cargo

RUN = Path(__file__).parent / "c" / "run.sh"


@pytest.fixture(scope="module")
def library() -> Path:
    from tilegym_rs_backend.build import ensure_library

    return Path(os.environ.get("TILEGYM_RS_LIBRARY") or ensure_library(reason="tests/test_c_abi.py"))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) on PATH")
def test_a_c_program_compiles_links_and_gets_its_codes(library: Path) -> None:
    done = subprocess.run(
        [str(RUN), str(library)],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert (
        lines[0] == "softmax_rows [E=f16 ROWS=4 BLOCK=1024 TMA=true] out:f16:p16:(16,?):(16,1) x:f16:p16:(16,?):(16,1)"
    )
    assert lines[1].endswith(" bytes of Tile IR")
    assert lines[2:] == ["ok"]
