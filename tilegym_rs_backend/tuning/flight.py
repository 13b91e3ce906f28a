# SPDX-License-Identifier: MIT
"""One search per key at a time, among threads and processes: whoever waits finds the choice made."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator

from ..build.lock import build_lock
from ..errors import BuildError
from ..errors import ToolchainError

TIMEOUT_S = 1800.0
_log = logging.getLogger("tilegym_rs_backend.tune")
_threads: dict[str, threading.Lock] = {}


def thread_flight(key: str) -> threading.Lock:
    """Return the lock that threads of this process hold for a key's search."""
    return _threads.setdefault(key, threading.Lock())


@contextlib.contextmanager
def single_flight(digest: str) -> Iterator[None]:
    """Hold the search of a key. Where files cannot be locked, or after `TIMEOUT_S`, only threads exclude each other."""
    with thread_flight(digest), contextlib.ExitStack() as stack:
        try:
            from ..toolchain.dirs import lock_dir

            path = lock_dir() / f"tune-{digest}.lock"
            stack.enter_context(build_lock(path, key=digest, log=path, say=_log.info, timeout=TIMEOUT_S))
        except (BuildError, ToolchainError, OSError) as error:
            _log.warning("searching without a lock between processes: %s", error)
        yield


def _reset_after_fork() -> None:
    _threads.clear()


os.register_at_fork(after_in_child=_reset_after_fork)
