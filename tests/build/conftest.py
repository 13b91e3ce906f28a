# SPDX-License-Identifier: MIT
"""A small world for the builder: a crate, a fake cargo that counts its runs, a fake toolkit, its own cache."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilegym_rs_backend.build import ensure
from tilegym_rs_backend.build import publish

CARGO = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "cargo 1.95.0 (fake)"; exit 0; fi
echo "$$" >> "$FAKE/runs"
manifest=""
while [ $# -gt 0 ]; do [ "$1" = --manifest-path ] && manifest="$2"; shift; done
echo "   Compiling fake v0.1.0" >&2
if [ -f "$FAKE/sleep" ]; then sleep "$(cat "$FAKE/sleep")" & echo $! >> "$FAKE/children"; wait; fi
if [ -f "$FAKE/fail" ]; then cat "$FAKE/fail" >&2; exit 101; fi
if [ -f "$FAKE/edit" ]; then cat "$FAKE/edit" >> "$(dirname "$manifest")/src/lib.rs"; rm "$FAKE/edit"; fi
out="$CARGO_TARGET_DIR/release"; mkdir -p "$out/out"
cp "$FAKE/lib.so" "$out/libcutile_kernels.so"
echo "int x;" > "$out/out/cutile_kernels.h"
echo '{"reason":"build-script-executed","package_id":"p","out_dir":"'"$out"'/out"}'
printf '{"reason":"compiler-artifact","package_id":"p","target":{"kind":["cdylib"]},'
echo '"manifest_path":"'"$manifest"'","filenames":["'"$out"'/libcutile_kernels.so"]}'
"""
RUSTC = '#!/bin/sh\nwhile read -r line; do echo "$line"; done < "$FAKE/rustc"\n'
TILEIRAS = '#!/bin/sh\necho "Cuda compilation tools, release 13.4, V13.4.92"\n'
LIBRARY_C = "int cutile_abi_version(void) { return 1; }\n"
# Just enough of libclang for the header probe to be satisfied.
LIBCLANG_C = """
void *clang_createIndex(int a, int b) { static int i; return &i; }
void *clang_parseTranslationUnit(void *i, const char *f, void *a, int n, void *u, unsigned k, unsigned o) { return i; }
unsigned clang_getNumDiagnostics(void *u) { return 0; }
"""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control gives that to what it runs in the background, and children would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def interpreter(code: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """Start a fresh interpreter on this code; both its outputs are pipes."""
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except OSError:
        return False
    return text.rsplit(")", 1)[1].split()[0] != "Z"


def gone(pid: int, seconds: float = 8) -> bool:
    """Whether a process ends within so many seconds."""
    deadline = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not alive(pid)


def tree(folder: Path) -> list[tuple[str, int]]:
    """Every file and folder below with its time of change."""
    return sorted((str(path), path.lstat().st_mtime_ns) for path in folder.rglob("*") if "__pycache__" not in str(path))


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """lib.so and libclang.so, compiled once."""
    folder = tmp_path_factory.mktemp("compiled")
    for name, text in (("lib", LIBRARY_C), ("libclang", LIBCLANG_C)):
        source = folder / f"{name}.c"
        source.write_text(text, encoding="ascii")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(folder / f"{name}.so"), str(source)], check=True)
    return folder


@dataclass
class World:
    """What a test of the builder stands on."""

    root: Path
    crate: Path
    fake: Path
    cache: Path
    env: dict[str, str]

    @property
    def runs(self) -> int:
        """How often cargo ran."""
        path = self.fake / "runs"
        return len(path.read_text(encoding="ascii").split()) if path.exists() else 0

    def start(self, code: str, **env: str) -> subprocess.Popen[str]:
        """Start a fresh interpreter in this world."""
        prelude = (
            f"from pathlib import Path; from tilegym_rs_backend.build import *; crate = Path({str(self.crate)!r})\n"
        )
        return interpreter(prelude + textwrap.dedent(code), {**self.env, **env})

    def run(self, code: str = "print(ensure_library(crate))", **env: str) -> tuple[int, str, str]:
        """Run a fresh interpreter to its end; return status, standard output, standard error."""
        process = self.start(code, **env)
        out, err = process.communicate(timeout=50)
        return process.returncode, out.strip(), err

    def wait_for(self, name: str, seconds: float = 15) -> None:
        """Wait until the fake cargo has written a file."""
        deadline = time.monotonic() + seconds
        while not (self.fake / name).exists():
            assert time.monotonic() < deadline, f"cargo never wrote {name}"
            time.sleep(0.02)


@pytest.fixture
def world(tmp_path: Path, compiled: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A fresh world; the environment of the test process itself is set to it too."""
    fake = tmp_path / "fake"
    executable(fake / "bin" / "cargo", CARGO)
    executable(fake / "bin" / "rustc", RUSTC)
    (fake / "rustc").write_text("rustc 1.95.0 (fake)\nhost: x86_64-unknown-linux-gnu\n", encoding="ascii")
    os.link(compiled / "lib.so", fake / "lib.so")
    toolkit = tmp_path / "toolkit"
    executable(toolkit / "bin" / "tileiras", TILEIRAS)
    (toolkit / "include").mkdir()
    (toolkit / "include" / "cuda.h").write_text("#define CUDA_VERSION 13040\n", encoding="ascii")
    (toolkit / "include" / "curand.h").touch()
    crate = tmp_path / "crate"
    (crate / "src" / "ops").mkdir(parents=True)
    (crate / "Cargo.toml").write_text('[package]\nname = "cutile_kernels"\n', encoding="ascii")
    (crate / "Cargo.lock").write_text("version = 4\n", encoding="ascii")
    (crate / "src" / "lib.rs").write_text("mod ops;\n", encoding="ascii")
    (crate / "src" / "ops" / "softmax.rs").write_text("// one\n", encoding="ascii")
    (tmp_path / "home").mkdir()
    env = {
        "PATH": f"{fake / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "FAKE": str(fake),
        "TILEGYM_RS_CACHE_DIR": str(tmp_path / "cache"),
        "TILEGYM_RS_TOOLKIT": str(toolkit),
        "LIBCLANG_PATH": str(compiled),
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    for name in ("TILEGYM_RS_AUTOBUILD", "CUTILE_RS_AUTOBUILD", "TILEGYM_RS_LIBRARY", "TILEGYM_RS_RELOAD", "RUSTFLAGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(ensure, "_failed", {})  # every fake crate has the same key; one's failure is not another's
    monkeypatch.setattr(publish, "_refused", set())
    return World(tmp_path, crate, fake, tmp_path / "cache", env)
