# SPDX-License-Identifier: MIT
"""The crates of a first build, compiled while the packages are still being fetched."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from ..errors import ToolchainError
from ..progress import Heartbeat
from . import install
from .cargo import find_cargo
from .dirs import build_dir
from .dirs import made
from .dirs import target_dir
from .env import cargo_env
from .progress import Rate
from .progress import say
from .toolkit import find_toolkit


@contextlib.contextmanager
def compiling(crate: Path, rate: Rate) -> Iterator[None]:
    """Compile a crate into the lazy build's target folder while the block runs; the block's end waits for it.

    Nothing where a target folder has crates already. A failure is not reported here: the build itself will meet it, and
    has the words for it.

    Args:
        crate: folder of its Cargo.toml.
        rate: of downloads; the toolkit, which crates need, comes first.

    Raises:
        ToolchainError: the toolkit cannot be had.
    """
    if any(target_dir().glob("*/release/deps")):
        yield
        return
    install.install("toolkit", rate)
    process = _start(crate)
    if process is None:
        yield
        return
    try:
        yield
        heartbeat = Heartbeat(say)
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.2)
            heartbeat.beat(f"still compiling the crates after {heartbeat.seconds:.0f} s")
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(crate: Path) -> subprocess.Popen[bytes] | None:
    try:
        cargo, toolkit = find_cargo(), find_toolkit(headers=True)
        environment = cargo_env(toolkit, "")
    except ToolchainError:
        return None
    command = [str(cargo.path), "build", "--release", "--lib", "--locked", "--manifest-path", str(crate / "Cargo.toml")]
    if os.environ.get("TILEGYM_RS_OFFLINE", "") not in ("", "0"):
        command.append("--offline")
    log = made(build_dir() / "logs") / "crates.log"
    say(f"compiling the crates that a first build needs, beside the rest (log: {log})")
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
