# SPDX-License-Identifier: MIT
"""Lines that tell what is going on during a set-up, and how long it will take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from collections.abc import Sequence

from ..errors import ToolchainError
from ..progress import Heartbeat

_GUESSED_RATE = 20.0  # MB/s, until something was downloaded


class Rate:
    """The download rate seen so far, in MB/s."""

    def __init__(self) -> None:
        self._megabytes = 0.0
        self._seconds = 0.0

    def add(self, megabytes: float, seconds: float) -> None:
        """Count one download."""
        self._megabytes += megabytes
        self._seconds += seconds

    def estimate(self, megabytes: float) -> str:
        """Return ``53 MB, about 3 s`` for a download ahead."""
        rate = self._megabytes / self._seconds if self._seconds > 0.5 else _GUESSED_RATE
        return f"{megabytes:.0f} MB, about {duration(megabytes / max(rate, 0.01))}"


def duration(seconds: float) -> str:
    """Return ``8 s`` or ``4 min``."""
    return f"{max(1, round(seconds))} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def say(text: str) -> None:
    """Write one line to standard output."""
    print(f"tilegym-rs: {text}", flush=True)


def wait(process: subprocess.Popen[bytes], what: str, *, silent: bool = False) -> None:
    """Wait until a process ends, and say now and then that it is still doing ``what``, unless it tells by itself."""
    heartbeat = Heartbeat(say)
    while process.poll() is None:
        try:
            process.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            if not silent:
                heartbeat.beat(f"still {what} after {heartbeat.seconds:.0f} s")


def run(command: Sequence[str], what: str, *, env: Mapping[str, str] | None = None) -> None:
    """Run a command with its output passed on, and a heartbeat where nobody watches a terminal.

    Raises:
        ToolchainError: it failed; the text has the command and its status.
    """
    process = subprocess.Popen(list(command), env=dict(env) if env is not None else None, stdin=subprocess.DEVNULL)
    try:
        wait(process, what, silent=sys.stdout.isatty())
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=30)
    if process.returncode != 0:
        raise ToolchainError(
            f"{what} failed with status {process.returncode}; the reason is above.\n  command: {' '.join(command)}\n"
            "  Behind a proxy set HTTPS_PROXY or PIP_INDEX_URL. Run the same command again: it goes on from here."
        )
