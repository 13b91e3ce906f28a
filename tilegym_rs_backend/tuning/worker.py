# SPDX-License-Identifier: MIT
"""Candidates run in a process of their own: one that hangs or faults takes that process with it, not the user's.

The parent asks for one thing at a time (`WorkerRunner`), waits with a deadline, and after a death starts a new process
for the candidates that are left. `main` is the process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any
from typing import Protocol

from ..errors import TilegymRsError
from .measure import Failed

OPEN_S = 180.0
"""For a new process to import torch and open the device."""
STEP_S = 60.0
"""For one candidate to load and run."""
_RESTARTS = 6


class Job(Protocol):
    """What the process does; see `measure.Runner`."""

    def prepare(self, index: int) -> None:
        """See `measure.Runner`."""

    def sample(self, index: int) -> float:
        """See `measure.Runner`."""

    def sound(self) -> bool:
        """Whether the device still works after a failure; if not, the process ends."""


class WorkerUnavailable(TilegymRsError):
    """No process can measure here: the device is full or not to be shared, or torch cannot be imported there."""


class WorkerRunner:
    """A `measure.Runner` whose candidates run in another process.

    Args:
        spec: what the process opens: anything that can be pickled.
        command: how it is started, the number of the pipe's end to be appended; default: this module.
        environment: variables to set for it.
        open_s, step_s: deadlines in seconds.
    """

    def __init__(
        self,
        spec: Any,
        *,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        open_s: float = OPEN_S,
        step_s: float = STEP_S,
    ) -> None:
        self._spec = spec
        self._command = tuple(command) or (sys.executable, "-m", __name__)
        self._environment = dict(environment or {})
        self._open_s, self._step_s = open_s, step_s
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._log: Any = None
        self._starts = 0
        self._failed: set[int] = set()
        self._last = ""

    def prepare(self, index: int) -> None:
        """See `measure.Runner`."""
        self._ask("prepare", index)

    def sample(self, index: int) -> float:
        """See `measure.Runner`."""
        return float(self._ask("sample", index))

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=2.0)
            self._kill()
        self._process = self._pipe = None

    def __enter__(self) -> WorkerRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, what: str, index: int) -> Any:
        if self._process is None:
            self._start()
        try:
            done, value, sound = self._exchange((what, index), self._step_s)
        except _Silent as error:
            self._failed.add(index)
            self._last = self._end(error)
            raise Failed(self._last) from None
        if not sound:
            self._last = str(value)
            self.close()
        if not done:
            self._failed.add(index)
            raise Failed(str(value))
        return value

    def _start(self) -> None:
        if self._starts > _RESTARTS:
            raise WorkerUnavailable(f"the measuring process ended {self._starts} times, the last time: {self._last}")
        self._starts += 1
        ours, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        path = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [*self._command, str(theirs.fileno())],
            env={**os.environ, "PYTHONPATH": path, **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        self._pipe = ours
        try:
            opened, value, _ = self._exchange((self._spec, sorted(self._failed)), self._open_s)
        except _Silent as error:
            raise WorkerUnavailable(f"the measuring process: {self._end(error)}") from None
        if not opened:
            self.close()
            raise WorkerUnavailable(f"the measuring process cannot start: {value}")

    def _exchange(self, message: Any, deadline_s: float) -> tuple[bool, Any, bool]:
        """Return whether it was done, the value or the reason, and whether the process can go on."""
        assert self._pipe is not None
        try:
            self._pipe.send(message)
            if not self._pipe.poll(deadline_s):
                raise _Silent(f"did not answer within {deadline_s:g} s and was ended")
            answer: tuple[bool, Any, bool] = self._pipe.recv()
            return answer
        except (EOFError, OSError):
            raise _Silent("") from None

    def _end(self, error: _Silent) -> str:
        """Kill what is left of the process and return why it is gone."""
        assert self._process is not None
        if not str(error):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=5.0)
        code = self._process.poll()
        self._kill()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None
        if str(error):
            return str(error)
        how = "was killed" if code is None else f"ended by signal {-code}" if code < 0 else f"ended with status {code}"
        tail = self._tail()
        return f"its process {how}" + (f": {tail}" if tail else "")

    def _tail(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def _kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class _Silent(Exception):
    """The process does not answer any more."""


def serve(pipe: Connection, open_job: Callable[[Any, Sequence[int]], Job]) -> None:
    """Answer the parent until it closes the pipe or the device is unsound.

    `open_job` gets what the parent wants opened, and the numbers of candidates that failed before.
    """
    try:
        job = open_job(*pipe.recv())
    except Exception as error:
        pipe.send((False, f"{type(error).__name__}: {error}", False))
        return
    pipe.send((True, None, True))
    while True:
        try:
            what, index = pipe.recv()
        except EOFError:
            return
        try:
            step = job.prepare if what == "prepare" else job.sample
            pipe.send((True, step(index), True))
        except (Failed, TilegymRsError, RuntimeError) as error:
            sound = job.sound()
            pipe.send((False, (str(error).strip() or type(error).__name__).splitlines()[0][:300], sound))
            if not sound:
                return


def main(arguments: Sequence[str]) -> None:
    """Open the job that the parent sends and answer its questions."""
    from .job import LaunchJob

    serve(Connection(int(arguments[0])), LaunchJob)


if __name__ == "__main__":
    main(sys.argv[1:])
