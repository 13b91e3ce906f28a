# SPDX-License-Identifier: MIT
"""Build the library for the current sources, unless it is there; print its path."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import print_json

HELP = "build the library now instead of on first use"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--force", action="store_true", help="run cargo even though the library is there")
    parser.add_argument("--crate", type=Path, metavar="DIR", help="another crate of the same shape")
    parser.add_argument("--into", type=Path, metavar="DIR", help="copy the library, its header and build.json there")
    parser.add_argument("--json", action="store_true", help="print the path and build.json as JSON")


def run(options: argparse.Namespace) -> int:
    """Build and print."""
    from ..build import ensure_library
    from ..build import publish

    path = ensure_library(options.crate, force=options.force)
    published = publish.read(path.parent)
    if options.into is not None and published is not None:
        path = publish.copy_to(published, options.into)
    if options.json:
        print_json({"library": path, "build": published.manifest if published else None})
    else:
        print(path)
    return 0
