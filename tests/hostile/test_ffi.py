# SPDX-License-Identifier: MIT
"""The C boundary: random arguments always get a code and a text, and a panic is an exception (bug report B16)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.library import Library

pytestmark = pytest.mark.cargo
ROOT = Path(__file__).parents[2]
CALLS = 10_000


@pytest.fixture(scope="module")
def library() -> Library:
    """A library object of this module's own, with the function that panics declared."""
    from tilegym_rs_backend.library import get_library

    found = Library(get_library().path)
    found.ffi.cdef("int32_t cutile_test_panic(void);")
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls_get_the_codes_that_fit(library: Library, seed: int) -> None:
    command = [sys.executable, str(Path(__file__).with_name("ffi_fuzz.py")), str(library.path), str(seed), str(CALLS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    counts = json.loads(done.stdout)
    assert sum(counts.values()) == CALLS
    for code in ("0", "1", "-2", "-4", "-5", "-6"):
        assert counts[code] > CALLS // 100, "every outcome is tried often"
    assert "-7" not in counts


def test_a_panic_is_an_exception_with_its_text_and_the_next_call_works(library: Library) -> None:
    code = library.lib.cutile_test_panic()
    with pytest.raises(
        LaunchError,
        match=r"panic caught in the library \(rc=-7\): cutile_test_panic was called \(at .*exports\.rs:\d+\)",
    ):
        library.fail(code, "test")
    assert library.lib.cutile_abi_version() == 1
    assert library.kernel("softmax_rows")


def test_each_thread_sees_its_own_text(library: Library) -> None:
    together = Barrier(8)

    def call(number: int) -> None:
        name = library.ffi.new("char[]", f"kernel_{number}".encode())
        together.wait()
        for _ in range(200):
            assert library.lib.cutile_test_panic() == -7
            assert library.last_error().startswith("cutile_test_panic was called")
            assert library.lib.cutile_spec(name, library.ffi.NULL, 0, library.ffi.NULL, 0, 0, 0, 0) == -6
            assert f'no kernel named "kernel_{number}"' in library.last_error()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, range(8)))


def test_every_exported_function_has_the_guard() -> None:
    """`extern "C" fn` with a body stands in one macro, which catches panics, and build.rs writes exports through it."""
    found = {
        str(path.relative_to(ROOT)): len(re.findall(r'extern "C" fn \$?\w+\s*\(', path.read_text(encoding="utf-8")))
        for path in [*(ROOT / "rust" / "src").rglob("*.rs"), *(ROOT / "rust" / "build").glob("*.rs")]
    }
    assert {path: count for path, count in found.items() if count} == {"rust/src/exports.rs": 1}
    macro = (ROOT / "rust" / "src" / "exports.rs").read_text(encoding="utf-8")
    assert "$crate::status::guard(move || $body)" in macro
