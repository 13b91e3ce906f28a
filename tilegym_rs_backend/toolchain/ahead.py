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
from . import install
from .cargo import build_command
from .cargo import find_cargo
from .dirs import build_dir
from .dirs import made
from .dirs import target_dir
from .env import cargo_env
from .progress import Rate
from .progress import say
from .progress import wait
from .toolkit import find_toolkit


def has_crates() -> bool:
    """Whether a build was here before, so that its crates are there."""
    return any(target_dir().glob("*/release/deps"))


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
    if has_crates():
        yield
        return
    install.install("toolkit", rate)
    process = _start(crate)
    if process is None:
        yield
        return
    try:
        yield
        wait(process, "compiling the crates")
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
    log = made(build_dir() / "logs") / "crates.log"
    say(f"compiling the crates that a first build needs, beside the rest (log: {log})")
    with log.open("wb") as output:
        return subprocess.Popen(
            build_command(cargo.path, crate),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
