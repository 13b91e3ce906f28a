# SPDX-License-Identifier: MIT
"""A long-lived worker process that answers one request at a time; it is replaced after a crash or a timeout."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any

from pytest_cutile_rs.peers.base import PeerError

_TAIL = 4000


class WorkerProcess:
    """Runs ``python -m MODULE FD`` on demand and talks to it in pickles over a socket.

    The child is started afresh (not forked), so that nothing it patches or loads is seen here and no CUDA state of
    this process is seen there.
    """

    def __init__(self, module: str, environment: Mapping[str, str | None], timeout_s: float) -> None:
        self._module = module
        self._environment = environment
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Any = None
        self._log: Any = None
        atexit.register(self.close)

    def ask(self, request: object) -> Any:
        """Send a request and return the answer.

        Raises:
            PeerError: the worker died (with the end of what it printed) or did not answer in time; the next request
                starts a new one.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            try:
                self._connection.send(request)
                if not self._connection.poll(self._timeout_s):
                    raise PeerError(
                        f"The peer's worker did not answer {request} within {self._timeout_s:.0f} s and was ended. "
                        f"It printed:\n{self._printed()}"
                    )
                return self._connection.recv()
            except PeerError:
                self._stop()
                raise
            except (EOFError, OSError) as error:
                status, printed = self._exit_status(), self._printed()
                self._stop()
                raise PeerError(
                    f"The peer's worker ended ({status}) while it answered {request}. It printed:\n{printed}"
                ) from error
            except BaseException:  # an interrupt leaves an answer on the way that no later request may take for its own
                self._stop()
                raise

    def close(self) -> None:
        """End the worker, if one runs."""
        with self._lock:
            self._stop()

    @property
    def pid(self) -> int | None:
        """The running worker's process id."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        for name, value in self._environment.items():
            environment.pop(name, None)
            if value is not None:
                environment[name] = value
        ours, theirs = socket.socketpair()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise PeerError(f"The peer's worker cannot be started with {sys.executable}: {error}") from error
        finally:
            theirs.close()
        self._connection = Connection(ours.detach())

    def _exit_status(self) -> str:
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(timeout=5)
            return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return "still running, its connection closed"

    def _printed(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            size = self._log.seek(0, os.SEEK_END)
            self._log.seek(max(0, size - _TAIL))
            return bytes(self._log.read()).decode(errors="replace").strip() or "nothing"
        return "nothing"

    def _stop(self) -> None:
        if self._connection is not None:
            self._connection.close()  # the worker ends by itself when it reads the end
            self._connection = None
        if self._process is not None:
            try:
                self._process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
