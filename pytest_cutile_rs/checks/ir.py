# SPDX-License-Identifier: MIT
"""Compare the Tile IR of both sides' kernels and name every difference. Descriptive: a difference is no failure."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks.pairs import LaunchLike
from pytest_cutile_rs.checks.pairs import count_difference
from pytest_cutile_rs.checks.pairs import describe
from pytest_cutile_rs.checks.pairs import pair
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import CheckResult
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tile_ir.features import CATEGORIES
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.reader import read_module
from tilegym_rs_backend.tile_ir.side_by_side import side_by_side
from tilegym_rs_backend.tile_ir.verdict import Sameness
from tilegym_rs_backend.tile_ir.verdict import compare

Reader = Callable[[bytes], Function]


def read_kernel(bytecode: bytes) -> Function:
    """Read a bytecode of one kernel; no toolkit is needed.

    Raises:
        TileIrError: the bytes cannot be read.
        CompileError: they hold no kernel, or several.
    """
    entries = [function for function in read_module(bytecode).functions if function.is_entry]
    if len(entries) != 1:
        raise CompileError(f"One entry was expected in the bytecode, it holds {len(entries)}.")
    return entries[0]


def check(
    case: Case,
    ours: Sequence[LaunchLike],
    theirs: Sequence[LaunchLike],
    arch: str,
    *,
    read: Reader = read_kernel,
) -> CheckResult:
    """Compare launch by launch.

    PASS: both sides were read; ``reason`` says that the kernels are identical or equivalent, or in which categories
    they differ and how; the rows of a quick case hold both kernels side by side. FAIL: a kernel of ours is no valid
    Tile IR, or we launch nothing where the peer does. NOT-RUN: the peer's kernel cannot be read, or neither side
    launches anything.
    """

    def result(status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
        return CheckResult("ir", case.op, case.id, status, reason, {"arch": arch, **(data or {})}, details, case.dtype)

    if not ours and not theirs:
        return result(NOT_RUN, "neither side launches a kernel")
    if not ours:
        return result(FAIL, f"our op launches nothing where cuTile Python launches {', '.join(t.name for t in theirs)}")
    if not theirs:
        return result(NOT_RUN, f"cuTile Python launches nothing to compare {', '.join(o.name for o in ours)} with")
    rows: list[dict[str, Any]] = []
    found: set[str] = set()
    sentences: list[str] = [text for text in [count_difference(ours, theirs)] if text]
    identical = not sentences
    for both in pair(ours, theirs):
        try:
            mine = read(both.ours.bytecode)
        except TilegymRsError as error:
            return result(FAIL, f"our kernel {both.ours.name} is no valid Tile IR", details=str(error))
        try:
            peer = read(both.theirs.bytecode)
        except TilegymRsError as error:
            return result(NOT_RUN, f"cuTile Python's kernel {both.theirs.name} cannot be read: {error}")
        verdict = compare(mine, peer, arch)
        found.update(verdict.categories)
        identical &= verdict.sameness is Sameness.IDENTICAL
        title = f"{both.ours.name} / {both.theirs.name}"
        sentences += [f"{title}: {difference}" for difference in verdict.differences]
        shown = case.quick and verdict.sameness is not Sameness.IDENTICAL
        rows.append(
            {
                **both.to_dict(),
                **({"side_by_side": side_by_side(mine, peer, only_differences=True)} if shown else {}),
                "verdict": verdict.sameness.value,
                "launch_differences": both.launch_differences(),
                "differences": [difference.to_dict() for difference in verdict.differences],
                "categories": list(verdict.categories),
                "remarks": list(verdict.remarks),
                "parameters_reordered": list(verdict.reordered),
                "operation_counts": [sum(1 for _ in side.body.walk()) for side in (mine, peer)],
            }
        )
    categories = [category for category in CATEGORIES if category in found]
    data = {
        "launches": rows,
        "launch_counts": [len(ours), len(theirs)],
        "surplus": [describe(launch) for launch in (*ours[len(rows) :], *theirs[len(rows) :])],
        "categories": categories,
        "equal": not sentences,
    }
    if not sentences:
        word = "IR-IDENTICAL" if identical else "IR-EQUIVALENT"
        return result(PASS, f"{word} in {len(rows)} kernel{'s' if len(rows) > 1 else ''}", data)
    return result(PASS, "differs in " + (", ".join(categories) or "number of launches"), data, "\n".join(sentences))
