# SPDX-License-Identifier: MIT
"""Install what is missing: CUDA 13.4 pieces and libclang; with --parity also what `pytest --cutile-rs` needs.

cargo and cc are checked first. Nothing is installed twice; an interrupted run is continued by the next one.
"""

from __future__ import annotations

import argparse

HELP = "install the toolkit, and with --parity the packages and CUPTI of the parity run"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--parity", action="store_true", help="with TileGym, cuda-tile, pytest and CUPTI")


def run(options: argparse.Namespace) -> int:
    """Install."""
    from ..toolchain.setup import setup

    setup(options.parity)
    return 0
