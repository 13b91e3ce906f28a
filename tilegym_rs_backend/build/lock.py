# SPDX-License-Identifier: MIT
"""A lock between processes that the kernel drops when its owner dies, and that tells waiters whom they wait for."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from filelock import Timeout

from .. import atomic
from ..errors import BuildError

SAY_AFTER_S = 2.0
SAY_AGAIN_S = 60.0
TIMEOUT_S = 3600.0


def owner_file(lock_path: Path) -> Path:
    """Return where the holder writes who it is: beside the lock, since opening the lock file may truncate that one."""
    return lock_path.with_suffix(".owner.json")


def _owner(lock_path: Path) -> dict[str, Any]:
    try:
        owner = json.loads(owner_file(lock_path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return owner if isinstance(owner, dict) else {}


def describe_owner(lock_path: Path) -> str:
    """Return one line on the holder of a lock, as far as it has said who it is."""
    owner = _owner(lock_path)
    try:
        age = time.time() - float(owner["start"])
        return f"process {owner['pid']} on {owner['host']}, at it for {age:.0f} s, log {owner['log']}"
    except (KeyError, TypeError, ValueError):
        return "a process that has not said who it is"


@dataclass
class Held:
    """A lock that is held.

    Attributes:
        waited: seconds until it was obtained.
    """

    path: Path
    key: str
    log: Path
    waited: float = 0.0

    def works_with(self, group: int) -> None:
        """Note the process group that does the work, so that the next holder can end it if this process is killed."""
        self._write(group=group, group_start=_start_time(group))

    def _write(self, **more: object) -> None:
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "start": time.time()}
        owner |= {"key": self.key, "log": str(self.log), **more}
        with contextlib.suppress(OSError):  # it only serves messages and cleaning up
            atomic.write(owner_file(self.path), json.dumps(owner))


@contextlib.contextmanager
def build_lock(
    lock_path: Path,
    *,
    key: str,
    log: Path,
    say: Callable[[str], None],
    timeout: float = TIMEOUT_S,
) -> Iterator[Held]:
    """Hold the lock.

    A file left by a dead process, whatever is in it, is no obstacle: only a living holder is. What a killed holder was
    still running is ended. After two seconds of waiting, and every minute then, ``say`` is told who holds the lock.

    Raises:
        BuildError: not obtained within ``timeout`` seconds, or the filesystem has no locks (stage ``lock``).
    """
    # A soft lock is a file whose existence counts, so it would outlive a killed owner: never fall back to it.
    lock = FileLock(lock_path, fallback_to_soft=False, thread_local=False)
    start = time.monotonic()
    _acquire(lock, lock_path, say=say, timeout=timeout)
    held = Held(lock_path, key, log, time.monotonic() - start)
    try:
        _end_orphans(lock_path, say)
        held._write()
        yield held
    finally:
        with contextlib.suppress(OSError):
            owner_file(lock_path).unlink()
        lock.release()


def _acquire(lock: FileLock, lock_path: Path, *, say: Callable[[str], None], timeout: float) -> None:
    deadline = time.monotonic() + timeout
    wait, word = SAY_AFTER_S, "waiting"
    while True:
        left = max(deadline - time.monotonic(), 0.0)
        try:
            lock.acquire(timeout=min(wait, left), poll_interval=0.05 if word == "waiting" else 0.2)
            return
        except Timeout as error:
            if left <= wait:
                raise BuildError(
                    f"waited {timeout:.0f} s for the lock {lock_path}, held by {describe_owner(lock_path)}",
                    stage="lock",
                    hints=("look at that process and its log; when it hangs, end it: the lock goes with it",),
                ) from error
            say(f"{word} for {describe_owner(lock_path)}")
            wait, word = SAY_AGAIN_S, "still waiting"
        except (OSError, NotImplementedError) as error:
            raise BuildError(
                f"the lock {lock_path} cannot be taken: {error}",
                stage="lock",
                hints=("set TILEGYM_RS_CACHE_DIR to a directory on a local disk, where flock works",),
            ) from error


def _end_orphans(lock_path: Path, say: Callable[[str], None]) -> None:
    """End the process group of a holder that was killed: it holds cargo's own lock, in silence and maybe for ever."""
    owner = _owner(lock_path)
    group, start = owner.get("group"), owner.get("group_start")
    if owner.get("host") != socket.gethostname() or not isinstance(group, int) or group <= 1 or start is None:
        return
    if _start_time(group) == start:  # else the number belongs to another process by now
        say(f"ending process group {group}, which process {owner.get('pid')} left running when it was killed")
        with contextlib.suppress(OSError):
            os.killpg(group, signal.SIGKILL)


def _start_time(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; ``None`` when there is none of that number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
        return int(fields[19])
    except (OSError, IndexError, ValueError):
        return None
