# SPDX-License-Identifier: MIT
"""A lock between processes that the kernel drops when its owner dies, and that tells waiters whom they wait for."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock
from filelock import Timeout

from ..errors import BuildError

SAY_AFTER_S = 2.0
TIMEOUT_S = 3600.0


def owner_file(lock_path: Path) -> Path:
    """Return where the holder writes who it is: beside the lock, since opening the lock file may truncate that one."""
    return lock_path.with_suffix(".owner.json")


def describe_owner(lock_path: Path) -> str:
    """Return one line on the holder of a lock, as far as it has said who it is."""
    try:
        owner = json.loads(owner_file(lock_path).read_text(encoding="utf-8"))
        age = time.time() - float(owner["start"])
        return f"process {owner['pid']} on {owner['host']}, at it for {age:.0f} s, log {owner['log']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "a process that has not said who it is"


@contextlib.contextmanager
def build_lock(
    lock_path: Path,
    *,
    key: str,
    log: Path,
    say: Callable[[str], None],
    timeout: float = TIMEOUT_S,
) -> Iterator[float]:
    """Hold the lock; yields the seconds waited for it.

    A file left by a dead process, whatever is in it, is no obstacle: only a living holder is. After two seconds of
    waiting ``say`` is told who holds the lock.

    Raises:
        BuildError: not obtained within ``timeout`` seconds, or the filesystem has no locks (stage ``lock``).
    """
    # A soft lock is a file whose existence counts, so it would outlive a killed owner: never fall back to it.
    lock = FileLock(lock_path, fallback_to_soft=False, thread_local=False)
    start = time.monotonic()
    _acquire(lock, lock_path, say=say, timeout=timeout)
    try:
        _write_owner(lock_path, key=key, log=log)
        yield time.monotonic() - start
    finally:
        with contextlib.suppress(OSError):
            owner_file(lock_path).unlink()
        lock.release()


def _acquire(lock: FileLock, lock_path: Path, *, say: Callable[[str], None], timeout: float) -> None:
    try:
        try:
            lock.acquire(timeout=min(SAY_AFTER_S, timeout), poll_interval=0.05)
        except Timeout:
            if timeout <= SAY_AFTER_S:
                raise
            say(f"waiting for {describe_owner(lock_path)}")
            lock.acquire(timeout=timeout - SAY_AFTER_S, poll_interval=0.2)
    except Timeout as error:
        raise BuildError(
            f"waited {timeout:.0f} s for the lock {lock_path}, held by {describe_owner(lock_path)}",
            stage="lock",
            hints=("look at that process and its log; when it hangs, end it: the lock goes with it",),
        ) from error
    except (OSError, NotImplementedError) as error:
        raise BuildError(
            f"the lock {lock_path} cannot be taken: {error}",
            stage="lock",
            hints=("set TILEGYM_RS_CACHE_DIR to a directory on a local disk, where flock works",),
        ) from error


def _write_owner(lock_path: Path, *, key: str, log: Path) -> None:
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "start": time.time(), "key": key, "log": str(log)}
    path = owner_file(lock_path)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    with contextlib.suppress(OSError):  # it only serves a message
        draft.write_text(json.dumps(owner), encoding="utf-8")
        draft.replace(path)
