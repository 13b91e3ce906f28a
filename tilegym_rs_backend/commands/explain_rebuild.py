# SPDX-License-Identifier: MIT
"""Print what differs between the newest library and the current sources, compiler, toolkit and flags.

Exit status: 0 nothing differs, 1 the next use builds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from . import print_json

HELP = "say why the next use would build, or that it would not"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--crate", type=Path, metavar="DIR", help="another crate of the same shape")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Compare and print."""
    from ..build import build_key
    from ..build import crate
    from ..build import explain
    from ..build import publish
    from ..build import rust_root
    from ..toolchain.toolkit import find_toolkit

    root = options.crate.resolve() if options.crate else rust_root()
    key = build_key(root, toolkit=find_toolkit(headers=True))
    current = publish.by_key(key.short)
    newest = publish.latest(crate.name_of(root), root)
    lines = [] if current else explain.difference(newest.manifest, key) if newest else []
    if options.json:
        built = newest.manifest["key"] if newest else None
        print_json({"key": key.digest, "newest": built, "rebuild": current is None, "differences": lines})
    elif current is not None:
        print(f"nothing to build: {current.library}")
    else:
        print(f"the next use builds {key.short}: {explain.why(newest.manifest if newest else None, key)}")
        print("\n".join(f"  {line}" for line in lines), end="\n" if lines else "")
    return 0 if current is not None else 1
