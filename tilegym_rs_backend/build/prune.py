# SPDX-License-Identifier: MIT
"""Delete what nobody needs any more: old libraries, logs, and target folders of toolchains that are gone."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from ..errors import BuildError
from ..errors import TilegymRsError
from ..toolchain.dirs import target_dir
from ..toolchain.env import cargo_env
from ..toolchain.toolkit import survey
from . import publish
from .crate import USED
from .crate import target_lock
from .lock import build_lock

DAY_S = 86400.0


def size(folder: Path) -> int:
    """Return the bytes of all files below ``folder``."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(directory, name)).st_size
    return total


def libraries(keep: int) -> tuple[int, int]:
    """Keep the newest ``keep`` libraries of each crate; return how many stay and the bytes that went.

    What killed builds and bad libraries left goes too, and logs without a library. A staging folder goes by its age
    alone: another process may be writing it.
    """
    crates: dict[object, list[Path]] = defaultdict(list)
    for each in publish.everything():
        crates[each.manifest.get("crate"), each.manifest.get("root")].append(each.folder)
    kept = {folder for folders in crates.values() for folder in folders[: max(keep, 1)]}
    publish.sweep_staging()
    dropped = 0
    with contextlib.suppress(OSError):
        for folder in sorted(publish.shelf().iterdir()):
            if folder not in kept and not folder.name.startswith("."):
                dropped += size(folder)
                shutil.rmtree(folder, ignore_errors=True)
    names = {folder.name for folder in kept}
    for log in publish.log_dir().iterdir():
        if log.name.split(".")[0] not in names:
            with contextlib.suppress(OSError):
                dropped += log.stat().st_size
                log.unlink()
    return len(kept), dropped


def targets(days: float) -> Iterator[tuple[Path, int]]:
    """Delete cargo's target folders that no build used for so many days; yield each with the bytes that went.

    The folder that the next build here would use stays, and so does one that is being worked in.
    """
    current = _current_target()
    folders = sorted(target_dir().iterdir()) if target_dir().is_dir() else []
    for folder in folders:
        if folder == current or not folder.is_dir() or time.time() - _last_use(folder) < days * DAY_S:
            continue
        with contextlib.suppress(BuildError):  # somebody builds there
            lock = build_lock(target_lock(folder), key="prune", log=folder, say=_mute, timeout=0.1)
            with lock:
                freed = size(folder)
                shutil.rmtree(folder, ignore_errors=True)
            yield folder, freed


def _mute(text: str) -> None:
    """Say nothing."""


def _current_target() -> Path | None:
    try:
        toolkit, _ = survey(headers=True)
        return Path(cargo_env(toolkit, "")["CARGO_TARGET_DIR"])
    except (OSError, TilegymRsError):
        return None


def _last_use(folder: Path) -> float:
    times = [0.0]
    for path in (folder / USED, folder / "release", folder):
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return times[1] if (folder / USED).exists() else max(times)
