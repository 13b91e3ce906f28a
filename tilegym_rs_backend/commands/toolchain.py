# SPDX-License-Identifier: MIT
"""Install, show or remove the private prefix; print the environment that cargo runs in.

`toolchain env` prints lines for a shell: eval "$(tilegym-rs toolchain env)" makes a cargo typed by hand share the lazy
build's target folder and headers.
"""

from __future__ import annotations

import argparse
import os
import shlex

from . import print_json

HELP = "install, path, env or remove of the private prefix"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("action", choices=("install", "path", "env", "remove"))
    parser.add_argument("--json", action="store_true", help="print JSON (path, env)")


def run(options: argparse.Namespace) -> int:
    """Do it."""
    action: str = options.action
    if action == "install":
        from ..toolchain.setup import setup

        setup(parity=False)
        return 0
    if action == "remove":
        return _remove()
    return _env(options.json) if action == "env" else _path(options.json)


def _remove() -> int:
    import shutil

    from ..toolchain.dirs import cache_dir
    from ..toolchain.dirs import prefix_dir

    for folder in (prefix_dir(), cache_dir() / "downloads"):
        if folder.is_dir():
            shutil.rmtree(folder)
            print(f"removed {folder}")
    return 0


def _path(as_json: bool) -> int:
    from ..toolchain.toolkit import find_toolkit

    toolkit = find_toolkit()
    if as_json:
        print_json(vars(toolkit))
    else:
        print(toolkit.root)
    return 0


def _env(as_json: bool) -> int:
    from ..toolchain.env import cargo_env
    from ..toolchain.toolkit import find_toolkit

    wanted = cargo_env(find_toolkit(headers=True), "")
    changed = {name: value for name, value in wanted.items() if os.environ.get(name) != value}
    dropped = sorted(set(os.environ) - set(wanted))
    if as_json:
        print_json({"set": changed, "unset": dropped})
        return 0
    for name, value in sorted(changed.items()):
        print(f"export {name}={shlex.quote(value)}")
    for name in dropped:
        print(f"unset {name}")
    return 0
