# SPDX-License-Identifier: MIT
"""Show the cache, drop what is old, or clear what can be made again.

`prune` keeps the newest libraries of each crate and the target folders of cargo that are in use, and drops logs and
staging folders of killed builds; `clear` removes libraries, cubins, translated kernels, what the tuner chose, and
cargo's target folder. The private prefix stays: `tilegym-rs toolchain remove`. A library in use stays valid.
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
    parser.add_argument("--keep", type=int, default=4, metavar="N", help="libraries of each crate to keep (default 4)")
    parser.add_argument(
        "--days", type=float, default=14, metavar="N", help="keep target folders used in the last N days (default 14)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON (info, prune)")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    from ..toolchain.dirs import cache_dir

    action: str = options.action
    if action == "path":
        print(cache_dir())
    elif action == "info":
        _info(options.json)
    elif action == "prune":
        _prune(options.keep, options.days, options.json)
    else:
        _clear()
    return 0


def mapped_libraries() -> dict[str, list[int]]:
    """Return the published libraries that processes of this user have mapped, old ones of reloads included, each with
    the processes' numbers.
    """
    from ..build.publish import shelves

    places = [str(each) + os.sep for each in shelves()]
    found: dict[str, list[int]] = {}
    for process in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            lines = Path(f"/proc/{process}/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        fields = (line.split(None, 5) for line in lines)
        names = {each[5].removesuffix(" (deleted)") for each in fields if len(each) == 6}
        for name in sorted(name for name in names if name.startswith(tuple(places))):
            found.setdefault(name, []).append(process)
    return found


def _folders() -> dict[str, Path]:
    from ..toolchain import dirs

    return {
        "libraries": dirs.build_dir(),
        "cubins": dirs.store_dir(),
        "translated": dirs.cache_dir() / "ported",
        "tuning": dirs.tune_dir(),
        "cargo target": dirs.target_dir(),
        "private prefix": dirs.prefix_dir(),
        "downloads": dirs.cache_dir() / "downloads",
    }


def _info(as_json: bool) -> None:
    from ..build import publish
    from ..build.prune import size
    from ..toolchain.dirs import read_only_dirs

    sizes = {name: size(folder) for name, folder in _folders().items()}
    libraries = [
        {
            "key": each.folder.name,
            "crate": each.manifest["crate"],
            "root": each.manifest.get("root"),
            "created": each.manifest["created"],
            "folder": each.folder,
        }
        for place in publish.shelves()
        for each in publish.everything(place)
    ]
    mapped = mapped_libraries()
    if as_json:
        folders = {name: {"path": folder, "bytes": sizes[name]} for name, folder in _folders().items()}
        read = list(read_only_dirs())
        print_json({"folders": folders, "only_read": read, "libraries": libraries, "mapped": mapped})
        return
    for name, folder in _folders().items():
        print(f"{name:<15} {sizes[name] / 1e6:>9.1f} MB  {folder}")
    for folder in read_only_dirs():
        print(f"{'only read':<15} {'':>12}  {folder}")
    print(f"{len(libraries)} libraries")
    for library, processes in mapped.items():
        print(f"mapped by {', '.join(map(str, processes))}: {library}")


def _prune(keep: int, days: float, as_json: bool) -> None:
    from ..build import prune

    kept, dropped = prune.libraries(keep)
    targets = dict(prune.targets(days))
    if as_json:
        print_json({"kept": kept, "bytes": dropped, "targets": {str(path): freed for path, freed in targets.items()}})
        return
    for folder, freed in targets.items():
        print(f"dropped target folder {folder}: {freed / 1e6:.1f} MB")
    print(f"kept {kept} libraries, dropped {dropped / 1e6:.1f} MB")


def _clear() -> None:
    from ..build.prune import size

    for name, folder in _folders().items():
        if name != "private prefix" and folder.is_dir():
            freed = size(folder)
            shutil.rmtree(folder, ignore_errors=True)
            print(f"cleared {name}: {freed / 1e6:.1f} MB")
