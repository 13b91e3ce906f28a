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


def sanitizers(folder: Path) -> bool:
    """Whether the C compiler's address and undefined-behaviour sanitizers can be linked."""
    source = folder / "empty.c"
    source.write_text("int main(void) { return 0; }\n", encoding="ascii")
    command = ["cc", "-fsanitize=address,undefined", "-o", str(folder / "empty"), str(source)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) on PATH")
@pytest.mark.parametrize("way", ["plain", "asan"])
def test_a_c_program_compiles_links_and_gets_its_codes(library: Path, tmp_path: Path, way: str) -> None:
    """With the sanitizers too: no access outside of what was allocated, no leak. `make stress` has valgrind's part."""
    if way == "asan" and not sanitizers(tmp_path):
        pytest.skip("the C compiler has no address sanitizer")
    done = subprocess.run(
        [str(RUN), str(library), way],
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
