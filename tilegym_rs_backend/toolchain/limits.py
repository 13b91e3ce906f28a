# SPDX-License-Identifier: MIT
"""How many compilers may run at once: what this process's affinity and control groups allow, not what the host has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MEMORY_PER_JOB = 1.5 * 2**30
PROCESSES_PER_JOB = 24  # a rustc with its code-generation threads, and what cargo runs beside it
_UNLIMITED = float("inf")


def build_jobs(root: Path = Path("/")) -> int:
    """Return how many rustc processes may run, at least one; ``root`` holds ``proc`` and ``sys``."""
    page = float(os.sysconf("SC_PAGE_SIZE"))
    memory = min(page * os.sysconf("SC_PHYS_PAGES"), memory_bytes(root))
    jobs = min(float(len(os.sched_getaffinity(0))), cpus(root), memory / MEMORY_PER_JOB)
    return max(1, int(min(jobs, processes(root) / PROCESSES_PER_JOB)))


def cpus(root: Path = Path("/")) -> float:
    """Return the processors that the control groups allow, infinity when they do not say."""
    found = [_UNLIMITED]
    for folder in _groups(root, "cpu"):
        quota, _, period = _read(folder / "cpu.max").partition(" ")
        if not quota:  # version 1
            quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
        if quota.isdigit() and period.isdigit() and int(period):
            found.append(int(quota) / int(period))
    return min(found)


def memory_bytes(root: Path = Path("/")) -> float:
    """Return the memory that the control groups allow, infinity when they do not say."""
    return _least(root, "memory", "memory.max", "memory.high", "memory.limit_in_bytes")


def processes(root: Path = Path("/")) -> float:
    """Return the processes that the control groups still allow, infinity when they do not say."""
    found = [_UNLIMITED]
    for folder in _groups(root, "pids"):
        limit, used = _read(folder / "pids.max"), _read(folder / "pids.current")
        if limit.isdigit():
            found.append(float(limit) - float(used or 0))
    return min(found)


def _least(root: Path, controller: str, *names: str) -> float:
    found = [_read(folder / name) for folder in _groups(root, controller) for name in names]
    return min([float(text) for text in found if text.isdigit()], default=_UNLIMITED)


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folder of each control group this process is in: its own, then up to the topmost that is visible.

    A limit of any of them holds. In a container the path in /proc may name folders that are not visible here; the
    nearest one above that is stands for them.
    """
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            tops = [root / "sys/fs/cgroup", root / "sys/fs/cgroup/unified"]
        elif controller in controllers.split(","):
            tops = [root / "sys/fs/cgroup" / controllers, root / "sys/fs/cgroup" / controller]
        else:
            continue
        inside = Path(path.strip("/"))
        for top in tops:
            for each in (inside, *inside.parents):
                if (top / each).is_dir():
                    yield top / each


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
