# SPDX-License-Identifier: MIT
"""Pack what a GPU host without network, cargo, tileiras or cffi needs: wheels, the library, cubins.

The host sources DIR/activate.sh. With --aot the parity cases' kernels are compiled in; with --tileiras the compiler
comes
along, so that the host compiles the rest and runs the whole parity suite.
"""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "pack everything for a GPU host without network"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="a new or empty folder")
    parser.add_argument("--python", default="3.12", metavar="3.12", help="the host's Python (default: %(default)s)")
    parser.add_argument("--aot", action="append", default=[], metavar="sm_90", help="compile the cases for this GPU")
    parser.add_argument("--ops", default="", metavar="softmax,matmul", help="limit --aot to these ops")
    parser.add_argument("--ported", action="store_true", help="the kernels translated from cuTile Python too")
    parser.add_argument("--tuned", action="store_true", help="what `tilegym-rs tune` planned or chose for --aot")
    parser.add_argument("--tileiras", action="store_true", help="pack tileiras, ptxas and libnvvm too (60 MiB)")
    parser.add_argument("--runtime-only", action="store_true", help="leave out what only the parity run needs")
    parser.add_argument("--no-wheels", action="store_true", help="only the library and the cubins")


def run(options: argparse.Namespace) -> int:
    """Make the bundle."""
    from ..bundle import make

    make(
        options.out,
        python=options.python,
        aot=options.aot,
        ops=[op for op in options.ops.split(",") if op],
        parity=not options.runtime_only,
        ported=options.ported,
        tuned=options.tuned,
        toolkit=options.tileiras,
        wheels=not options.no_wheels,
    )
    return 0
