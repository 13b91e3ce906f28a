# SPDX-License-Identifier: MIT
"""Show the cache, drop old libraries, or clear what can be made again.

`prune` keeps the newest libraries and drops logs and staging folders of killed builds; `clear` removes libraries,
cubins and cargo's target folder. The private prefix stays: `tilegym-rs toolchain remove`. Never while ops are running.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path

from . import print_json

HELP = "info, path, prune or clear of the cache"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("action", choices=("info", "path", "prune", "clear"))
    parser.add_argument("--keep", type=int, default=4, metavar="N", help="libraries that prune keeps (default 4)")
    parser.add_argument("--json", action="store_true", help="print JSON (info)")


def size(folder: Path) -> int:
    """Return the bytes of all files below ``folder``."""
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(directory, name)).st_size
            except OSError:
                continue
    return total


def mapped_libraries() -> list[str]:
    """Return the published libraries this process has mapped, old ones of reloads included."""
    from ..build.publish import shelf

    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return sorted({line.split(None, 5)[-1] for line in lines if str(shelf()) in line})


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from ..toolchain.dirs import cache_dir

    action: str = options.action
    if action == "path":
        print(cache_dir())
    elif action == "info":
        _info(options.json)
    elif action == "prune":
        _prune(options.keep)
    else:
        _clear()
    return 0


def _folders() -> dict[str, Path]:
    from ..toolchain import dirs

    return {
        "libraries": dirs.build_dir(),
        "cubins": dirs.store_dir(),
        "cargo target": dirs.target_dir(),
        "private prefix": dirs.prefix_dir(),
        "downloads": dirs.cache_dir() / "downloads",
    }


def _info(as_json: bool) -> None:
    from ..build import publish

    sizes = {name: size(folder) for name, folder in _folders().items()}
    libraries = [
        {"key": each.folder.name, "crate": each.manifest["crate"], "created": each.manifest["created"]}
        for each in publish.everything()
    ]
    if as_json:
        folders = {name: {"path": folder, "bytes": sizes[name]} for name, folder in _folders().items()}
        print_json({"folders": folders, "libraries": libraries, "mapped": mapped_libraries()})
        return
    for name, folder in _folders().items():
        print(f"{name:<15} {sizes[name] / 1e6:>9.1f} MB  {folder}")
    print(f"{len(libraries)} libraries")


def _prune(keep: int) -> None:
    from ..build import publish

    kept = {each.folder for each in list(publish.everything())[: max(keep, 1)]}
    dropped = 0
    shelf = publish.shelf()
    for folder in sorted(shelf.iterdir()) if shelf.is_dir() else []:
        if folder not in kept:
            dropped += size(folder)
            shutil.rmtree(folder, ignore_errors=True)
    names = {folder.name for folder in kept}
    for log in publish.log_dir().iterdir():
        if log.name.split(".")[0] not in names:
            log.unlink(missing_ok=True)
    print(f"kept {len(kept)} libraries, dropped {dropped / 1e6:.1f} MB")


def _clear() -> None:
    for name, folder in _folders().items():
        if name != "private prefix" and folder.is_dir():
            freed = size(folder)
            shutil.rmtree(folder, ignore_errors=True)
            print(f"cleared {name}: {freed / 1e6:.1f} MB")
