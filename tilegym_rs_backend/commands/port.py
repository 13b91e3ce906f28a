# SPDX-License-Identifier: MIT
"""Translate an op's cuTile Python kernels to Rust, and prove that the machine code is equal; no GPU is needed.

    tilegym-rs port rms_norm gelu
    tilegym-rs port --all --arch sm_90
    tilegym-rs port --suites
    tilegym-rs port liger.geglu
    tilegym-rs port my_kernels.py:my_program
    tilegym-rs port validate .cutile_rs/port/sm_90/rms_norm

Stages: preflight, analyze, translate, self-check, host-side, perf. Each ends in a line `VERDICT: ...` per op, and so
does each launch. An op's folder holds sources, analysis, both sides' Tile IR and machine code, logs, reports and a
summary; `validate` checks all of it again. A stage whose inputs have not changed is not repeated, a killed run goes on.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path
from typing import Any

from ..errors import TilegymRsError
from . import print_json

HELP = "translate cuTile Python kernels to Rust and compare the machine code"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "ops",
        metavar="OP",
        nargs="*",
        help="ops with parity cases or of a suite, programs as FILE.py:FUNCTION (called with a device), or: "
        "validate DIR ...",
    )
    parser.add_argument("--all", action="store_true", help="every op of tilegym.ops")
    parser.add_argument("--suites", action="store_true", help="every op of tilegym.suites")
    parser.add_argument("--arch", default="sm_90", help="default: %(default)s")
    parser.add_argument("--out", type=Path, default=Path(".cutile_rs", "port"), help="default: %(default)s")
    parser.add_argument("--per-kernel", type=int, default=2, metavar="N", help="launches per kernel (default: 2)")
    parser.add_argument("--no-execute", action="store_true", help="leave out the execution on the CPU")
    parser.add_argument(
        "--on-refused",
        metavar="CMD",
        help="run for a kernel that the translator refuses; it finds refusal.json in the folder where it starts, and "
        "writes kernel.rs there, which is checked like a translation",
    )
    parser.add_argument(
        "--on-refused-seconds", type=float, default=600.0, metavar="S", help="its time limit (default: 600)"
    )
    parser.add_argument("--json", action="store_true", help="the summary of all, as JSON on the last line")


def run(options: argparse.Namespace) -> int:
    """Port; the exit status is 1 where a kernel was refused or differs."""
    if options.ops[:1] == ["validate"]:
        return _validate([Path(each) for each in options.ops[1:]])
    from pytest_cutile_rs.suite_calls import suite_ops
    from pytest_cutile_rs.suites import suites

    from ..port.external import Command
    from ..port.program import load

    ops, of_suites = suites(), suite_ops()
    programs = [load(each) for each in options.ops if ":" in each]
    known: dict[str, Any] = {**ops, **of_suites, **{program.name: program for program in programs}}
    named = [each for each in options.ops if ":" not in each] + [program.name for program in programs]
    wanted = list(dict.fromkeys([*(ops if options.all else ()), *(of_suites if options.suites else ()), *named]))
    unknown = sorted(set(wanted) - set(known))
    if unknown or not wanted:
        what = f"no op {', '.join(unknown)}" if unknown else "name an op, or --all, or --suites"
        raise TilegymRsError(f"{what}; known are: {', '.join(known)}")
    # TileGym says at every case that its backend was set.
    logging.disable(logging.INFO)
    from ..port.pipeline import Pipeline

    pipeline = Pipeline(
        options.arch,
        options.out,
        per_kernel=options.per_kernel,
        execute=not options.no_execute,
        on_refused=Command(options.on_refused, options.on_refused_seconds) if options.on_refused else None,
    )
    summary = pipeline.run({name: known[name] for name in wanted}, say=print)
    if options.json:
        print_json(summary)
    return 0 if summary["launches"] and not summary["failed"] and not summary["not_identical"] else 1


def _validate(folders: list[Path]) -> int:
    from ..port.validate import validate

    if not folders:
        raise TilegymRsError("validate: name a folder that `tilegym-rs port` wrote")
    wrong = 0
    for folder in folders:
        problems = validate(folder)
        wrong += bool(problems)
        for problem in problems:
            print(f"{folder}: {problem}")
        print(f"VERDICT: {'FAIL' if problems else 'PASS'} {folder}")
    return int(wrong > 0)
