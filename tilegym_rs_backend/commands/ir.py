# SPDX-License-Identifier: MIT
"""Show or compare the Tile IR of an op's kernels for one parity case; no GPU is needed.

    tilegym-rs ir show softmax f16-256x2048-tma
    tilegym-rs ir diff softmax f16-256x2048-tma

CASE is a case's id (`tilegym-rs describe OP` lists them) or a part of one that only it has. Bytecode files take the
place of OP and CASE: `ir show FILE`, `ir diff FILE FILE`.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from ..errors import TilegymRsError

if TYPE_CHECKING:
    from ..tile_ir.model import Function

HELP = "show the Tile IR of a case's kernels, or compare it with cuTile Python's"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("action", choices=("show", "diff"))
    parser.add_argument("op", metavar="OP", help="an op, or a bytecode file")
    parser.add_argument("case", metavar="CASE", nargs="?", help="a case's id, or the second file of a diff")
    parser.add_argument("--arch", default="sm_90", help="default: %(default)s")
    parser.add_argument("--theirs", action="store_true", help="show cuTile Python's kernels instead of ours")
    parser.add_argument("--width", type=int, help="of a diff in characters; default: the terminal's, at least 160")
    parser.add_argument("--all", action="store_true", help="diff: equal lines too")
    parser.add_argument("--json", action="store_true", help="diff: the verdicts alone, as JSON")


def run(options: argparse.Namespace) -> int:
    """Print; a diff's exit status is 1 where kernels differ."""
    if options.action == "show":
        return _show(options)
    return _diff(options)


def _show(options: argparse.Namespace) -> int:
    from ..build import rust_root
    from ..tile_ir.printer import Sources
    from ..tile_ir.printer import show
    from ..tile_ir.reader import read_module

    file = _file(options.op)
    if file is not None:
        images = [(options.op, file)]
    else:
        suite, case = _case(options)
        side = _theirs if options.theirs else _ours
        images = [(launch.name, launch.bytecode) for launch in side(suite, case, options.arch)]
    sources = Sources([rust_root()])
    for index, (name, bytecode) in enumerate(images):
        if len(images) > 1:
            print(f"{'' if index == 0 else chr(10)}# launch {index}: {name}")
        print(show(read_module(bytecode), sources), end="")
    return 0


def _diff(options: argparse.Namespace) -> int:
    from ..tile_ir.side_by_side import side_by_side
    from ..tile_ir.verdict import Sameness
    from ..tile_ir.verdict import compare
    from . import print_json

    width = options.width or max(160, shutil.get_terminal_size().columns)
    verdicts: list[dict[str, Any]] = []
    for title, ours, theirs in _pairs(options):
        if ours is None or theirs is None:
            verdicts.append({"launch": title, "verdict": "UNPAIRED", "differences": []})
            if not options.json:
                print(f"{title}: only {'ours' if ours else 'theirs'} launches it")
            continue
        verdict = compare(ours, theirs, options.arch)
        found = [each.to_dict() for each in verdict.differences]
        verdicts.append({"launch": title, "verdict": verdict.sameness.value, "differences": found})
        if options.json:
            continue
        print(f"{title}: {verdict}")
        for difference in verdict.differences:
            print(f"  {difference}")
        for remark in verdict.remarks:
            print(f"  {remark}")
        if verdict.sameness is not Sameness.IDENTICAL or options.all:
            print()
            print(side_by_side(ours, theirs, width, only_differences=not options.all))
    if options.json:
        print_json(verdicts)
    return int(any(each["verdict"] in ("DIFFERS", "UNPAIRED") for each in verdicts))


def _pairs(options: argparse.Namespace) -> Iterator[tuple[str, Function | None, Function | None]]:
    from ..tile_ir.reader import read_module

    def kernel(bytecode: bytes) -> Function:
        entries = [function for function in read_module(bytecode).functions if function.is_entry]
        if len(entries) != 1:
            raise TilegymRsError(f"One kernel was expected in the bytecode, it holds {len(entries)}.")
        return entries[0]

    first, second = _file(options.op), _file(options.case or "")
    if first is not None and second is not None:
        yield f"{options.op} / {options.case}", kernel(first), kernel(second)
        return
    suite, case = _case(options)
    sides = _ours(suite, case, options.arch), _theirs(suite, case, options.arch)
    for ours, theirs in itertools.zip_longest(*sides):
        names = [launch.name if launch else "nothing" for launch in (ours, theirs)]
        kernels = [kernel(launch.bytecode) if launch else None for launch in (ours, theirs)]
        yield " / ".join(names), kernels[0], kernels[1]


def _file(text: str) -> bytes | None:
    path = Path(text)
    return path.read_bytes() if text and path.is_file() else None


def _case(options: argparse.Namespace) -> tuple[Any, Any]:
    from pytest_cutile_rs.suites import suites

    known = suites()
    suite = known.get(options.op)
    if suite is None:
        raise TilegymRsError(f"No op {options.op!r} has parity cases, and no such file exists; ops: {_list(known)}.")
    wanted = options.case or ""
    exact = [case for case in suite.cases if case.id == wanted]
    found = exact or [case for case in suite.cases if wanted in case.id]
    if len(found) != 1:
        what = "matches none" if not found else f"matches {len(found)}"
        names = _list([case.id for case in found or suite.cases])
        raise TilegymRsError(f"Case {wanted!r} {what} of {options.op}'s cases; choose one of: {names}.")
    return suite, found[0]


def _list(names: Any, most: int = 12) -> str:
    listed = list(names)
    return ", ".join(listed[:most]) + (f" and {len(listed) - most} more" if len(listed) > most else "")


def _ours(suite: Any, case: Any, arch: str) -> Sequence[Any]:
    from pytest_cutile_rs.backend import CutileRsBackend

    backend = CutileRsBackend()
    backend.prepare()
    return backend.launches(suite, case, arch)


def _theirs(suite: Any, case: Any, arch: str) -> Sequence[Any]:
    from pytest_cutile_rs.peers.cutile_python import CutilePython

    peer = CutilePython()
    reason = peer.available()
    if reason:
        raise TilegymRsError(reason)
    try:
        return peer.launches(suite, case, arch)
    finally:
        peer.close()
