# SPDX-License-Identifier: MIT
"""Run cargo in a process group of its own: lines shown as they come, the whole log kept, nothing left running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import IO

from ..progress import Heartbeat

TIMEOUT_S = 3600.0
GRACE_S = 5.0


@dataclass
class Outcome:
    """How a cargo run ended.

    Attributes:
        returncode: cargo's exit status; negative for a signal.
        timed_out: it was ended for taking too long.
        seconds: how long it ran.
        messages: the JSON messages it printed, in order.
        log: all that it wrote to its standard error.
    """

    returncode: int
    timed_out: bool
    seconds: float
    messages: list[dict[str, object]] = field(default_factory=list)
    log: str = ""


class _Progress:
    """What is told while cargo works: its own lines on a terminal, a heartbeat elsewhere."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._heartbeat = Heartbeat(say)

    def line(self, text: str) -> None:
        self._last = text.strip() or self._last
        if self._terminal:
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(text)
                sys.stderr.flush()

    def beat(self) -> None:
        if not self._terminal:
            self._heartbeat.beat(f"still building after {self._heartbeat.seconds:.0f} s: {self._last}")


class _Log:
    """The log file. On a full disk it ends early and nobody else minds: a reader that gave up for it would leave cargo
    waiting for its pipe for ever.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # ValueError: closed, under a reader that did not end in time
            self._file.write(text)
            self._file.flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()


def kill_group(process: subprocess.Popen[str]) -> None:
    """End cargo and every rustc it started: a polite signal first, then the certain one, to those that outlive cargo
    too. A second Ctrl-C only shortens the wait between them.
    """
    try:
        _signal_group(process, signal.SIGTERM)
    finally:
        _signal_group(process, signal.SIGKILL)


def _signal_group(process: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=GRACE_S)


def run_cargo(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log_path: Path,
    say: Callable[[str], None],
    started: Callable[[int], None] = lambda group: None,
    timeout: float = TIMEOUT_S,
) -> Outcome:
    """Run ``command`` to its end and return the outcome; the log file has its every line.

    On a time-out, Ctrl-C or any other exception here the whole process group is ended before this returns. ``started``
    is told the group's number.

    Raises:
        OSError: the command cannot be started, or the log cannot be opened.
    """
    start = time.monotonic()
    progress = _Progress(say)
    with contextlib.closing(_Log(log_path)) as log:
        log.write(f"$ {' '.join(command)}\n# in {cwd}\n")
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        messages: list[dict[str, object]] = []
        lines: list[str] = []
        assert process.stdout is not None
        assert process.stderr is not None
        readers = [
            threading.Thread(target=_read_messages, args=(process.stdout, messages, log), daemon=True),
            threading.Thread(target=_read_log, args=(process.stderr, lines, log, progress), daemon=True),
        ]
        timed_out = False
        try:
            started(process.pid)
            for reader in readers:
                reader.start()
            while process.poll() is None:
                if time.monotonic() - start > timeout:
                    timed_out = True
                    break
                progress.beat()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
        finally:
            if process.poll() is None:
                kill_group(process)
            for reader in readers:  # a grandchild that left the group could hold the pipes open: do not wait for ever
                if reader.ident is not None:
                    reader.join(timeout=GRACE_S)
        return Outcome(process.returncode, timed_out, time.monotonic() - start, messages, "".join(lines))


def _read_messages(stream: IO[str], messages: list[dict[str, object]], log: _Log) -> None:
    for line in stream:
        try:
            message = json.loads(line)
        except ValueError:
            log.write(line)
            continue
        if isinstance(message, dict):
            messages.append(message)


def _read_log(stream: IO[str], lines: list[str], log: _Log, progress: _Progress) -> None:
    for line in stream:
        lines.append(line)
        log.write(line)
        progress.line(line)
