# SPDX-License-Identifier: MIT
"""A new user's first minutes, in a root where something is missing: each ends in a message that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import ROOT

pytestmark = [
    pytest.mark.cargo,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a root of its own"),
]
SCRIPT = Path(__file__).with_name("clean_root.sh")
PYTHON = sys.executable
CLI = (PYTHON, "-m", "tilegym_rs_backend.cli")
OP = (
    *(PYTHON, "-W", "always::RuntimeWarning", "-c"),
    "import torch\nfrom tilegym_rs_backend.ops.softmax import softmax\nprint(softmax(torch.zeros(2, 4)).tolist()[0])",
)
# Enough of cargo to be found; what is tried here ends before it would be run.
CARGO = """
mkdir -p /tmp/cargo
printf '#!/bin/sh\\necho "cargo 1.95.0 (fake)"\\n' > /tmp/cargo/cargo
printf '#!/bin/sh\\necho "rustc 1.95.0 (fake)"\\n' > /tmp/cargo/rustc
chmod +x /tmp/cargo/*
"""
WITH_CARGO = "PATH=/tmp/cargo:/usr/bin:/bin"


class Answer:
    """What a command said, and how it ended."""

    def __init__(self, what: str, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        lines = [line for line in self.err.splitlines() if not line.startswith(("  File ", "    ", "Traceback"))]
        print(f"--- {what}\n{self.out}" + "\n".join(lines))


def tried(what: str, command: tuple[str, ...], *, mounts: str = ":", extra: str = "", **env: str) -> Answer:
    environment = {"PATH": os.environ["PATH"], "PYTHON_BASE": sys.base_prefix, "PYTHON_PREFIX": sys.prefix}
    words = ["unshare", "-m", str(SCRIPT), str(ROOT), mounts, *(f"{k}={v}" for k, v in env.items()), *command]
    done = subprocess.run(
        words, env={**environment, "EXTRA": extra}, capture_output=True, text=True, timeout=300, check=False
    )
    return Answer(what, done)


@pytest.fixture(scope="module")
def prefix(user_cache: Path) -> Path:
    """The toolkit that set-up installed."""
    from tilegym_rs_backend.toolchain.prefix import toolkit_prefix

    return toolkit_prefix()


def ready(prefix: Path) -> dict[str, str]:
    """Everything but what a test takes away."""
    toolkit = {"TILEGYM_RS_TOOLKIT": str(prefix / "nvidia" / "cu13"), "LIBCLANG_PATH": str(prefix / "clang" / "native")}
    return {"PATH": "/tmp/cargo:/usr/bin:/bin", **toolkit}


def test_no_cargo() -> None:
    answer = tried("no cargo: an op", OP)
    assert answer.code == 1
    assert "the Rust kernels cannot be built here: several things are missing:" in answer.err
    assert "cargo is neither on PATH nor in ~/.cargo/bin" in answer.err
    assert "To fix: install Rust from https://rustup.rs" in answer.err
    assert "run `tilegym-rs setup`" in answer.err
    answer = tried("no cargo: tilegym-rs setup", (*CLI, "setup"))
    assert answer.code == 2
    assert "nothing was downloaded, because first:\n- cargo is neither on PATH" in answer.err
    answer = tried("no cargo: tilegym-rs doctor", (*CLI, "doctor"))
    assert answer.code == 2
    assert "FAIL  cargo" in answer.out
    assert answer.out.splitlines()[-1] == "the backend cannot work here"


def test_no_cc(prefix: Path) -> None:
    env = {**ready(prefix), "PATH": "/tmp/cargo"}
    answer = tried("no cc: an op", OP, mounts=CARGO, extra=str(prefix), **env)
    assert answer.code == 1
    assert (
        "the Rust kernels cannot be built here: no C compiler: `cc` is not on PATH, and rustc links with it."
        in answer.err
    )
    assert "To fix: `apt-get install gcc libc6-dev`, `dnf install gcc`" in answer.err


def test_cuda_home_is_an_old_toolkit() -> None:
    old = "mkdir -p /tmp/cuda-12.8/include\n"
    old += 'echo "#define CUDA_VERSION 12080" > /tmp/cuda-12.8/include/cuda.h'
    answer = tried(
        "CUDA_HOME is an old toolkit: an op",
        OP,
        mounts=CARGO + old,
        CUDA_HOME="/tmp/cuda-12.8",
        PATH="/tmp/cargo:/usr/bin:/bin",
    )
    assert answer.code == 1
    assert "CUDA_HOME: /tmp/cuda-12.8: CUDA 12.8 is older than 13.2" in answer.err
    assert "private prefix: /home/user/.cache/tilegym-rs/prefix/" in answer.err
    assert "To fix it, run `tilegym-rs setup` (it installs the tested one)" in answer.err
    explicit = tried(
        "TILEGYM_RS_TOOLKIT is an old toolkit",
        (*CLI, "build"),
        mounts=CARGO + old,
        TILEGYM_RS_TOOLKIT="/tmp/cuda-12.8",
        PATH="/tmp/cargo:/usr/bin:/bin",
    )
    assert explicit.code == 2
    assert "TILEGYM_RS_TOOLKIT is set but cannot be used:" in explicit.err
    assert "Correct it or unset it." in explicit.err


def test_home_is_read_only(user_cache: Path, prefix: Path) -> None:
    """The library comes from a cache that is only read; what is written goes to a private folder, with one warning."""
    from tilegym_rs_backend.build import ensure_library

    ensure_library()
    mounts = "mount -t tmpfs tmpfs /home/user; mount -o remount,ro /home/user"
    answer = tried(
        "HOME is read-only: an op", OP, mounts=mounts, extra=str(user_cache), TILEGYM_RS_CACHE_DIR=f":{user_cache}"
    )
    assert answer.code == 0
    assert answer.out.strip() == "[0.25, 0.25, 0.25, 0.25]"
    assert answer.err.count("RuntimeWarning") == 1
    assert (
        "tilegym-rs keeps its builds in /tmp/tilegym-rs-0, because /home/user/.cache/tilegym-rs cannot be created"
        in answer.err
    )
    assert "Set TILEGYM_RS_CACHE_DIR to a directory that stays." in answer.err
    explicit = tried(
        "TILEGYM_RS_CACHE_DIR is read-only",
        (*CLI, "cache", "path"),
        mounts=mounts,
        TILEGYM_RS_CACHE_DIR="/home/user/cache",
    )
    assert explicit.code == 2
    assert "TILEGYM_RS_CACHE_DIR=/home/user/cache cannot be created (Read-only file system)" in explicit.err


NOEXEC = "for path in /tmp /var/tmp /dev/shm; do mount -o remount,noexec $path; done"


def test_tmpdir_is_noexec(user_cache: Path) -> None:
    cache = f":{user_cache}"
    answer = tried(
        "TMPDIR is noexec: an op", OP, mounts=NOEXEC, extra=str(user_cache), TILEGYM_RS_CACHE_DIR=cache, TMPDIR="/tmp"
    )
    assert (answer.code, answer.out.strip()) == (0, "[0.25, 0.25, 0.25, 0.25]"), "nothing is executed from there"
    both = f"{NOEXEC}; mount -t tmpfs -o ro tmpfs /home/user"
    answer = tried(
        "TMPDIR is noexec and HOME read-only: an op", OP, mounts=both, extra=str(user_cache), TILEGYM_RS_CACHE_DIR=cache
    )
    assert answer.code == 1
    assert "no directory to keep builds in; tried:" in answer.err
    assert (
        "/tmp/tilegym-rs-0 is on a filesystem mounted noexec, so the built library could not be loaded from it"
        in answer.err
    )
    assert "Set TILEGYM_RS_CACHE_DIR to a writable one." in answer.err


def test_one_gigabyte_of_disk_left(prefix: Path) -> None:
    mounts = f"{CARGO}mount -t tmpfs -o size=1g tmpfs /home/user"
    answer = tried("1 GB of disk left: an op", OP, mounts=mounts, extra=str(prefix), **ready(prefix))
    assert answer.code == 1
    assert "GB free, this build needs 1.2 GB" in answer.err
    assert "fix: free some, or set TILEGYM_RS_CACHE_DIR to a larger disk" in answer.err
    answer = tried(
        "1 GB of disk left: tilegym-rs setup", (*CLI, "setup"), mounts=mounts, **{"PATH": "/tmp/cargo:/usr/bin:/bin"}
    )
    assert answer.code == 2
    assert "nothing was downloaded: /home/user" in answer.err
    assert "Free some, or set TILEGYM_RS_CACHE_DIR to a larger disk." in answer.err
