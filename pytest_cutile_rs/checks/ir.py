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
from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.tile_ir.compare import CATEGORIES
from tilegym_rs_backend.tile_ir.compare import compare_kernels
from tilegym_rs_backend.tile_ir.listing import KernelIr

Reader = Callable[[bytes], KernelIr]


def reader() -> Reader:
    """Read bytecode with the ``tileirdisasm`` beside the tileiras in use.

    Raises:
        ToolchainError: no toolkit, or one without a disassembler.
    """
    from tilegym_rs_backend.tile_ir.disasm import find_tileirdisasm
    from tilegym_rs_backend.tile_ir.disasm import read_kernel
    from tilegym_rs_backend.toolchain.toolkit import find_toolkit

    tool = find_tileirdisasm(find_toolkit().tileiras)
    return lambda bytecode: read_kernel(bytecode, tool)


def check(
    case: Case, ours: Sequence[LaunchLike], theirs: Sequence[LaunchLike], arch: str, *, read: Reader | None = None
) -> CheckResult:
    """Compare launch by launch.

    PASS: both sides were read; ``reason`` says that nothing differs, or in which categories and how. FAIL: a kernel of
    ours is no valid Tile IR, or we launch nothing where the peer does. NOT-RUN: no disassembler, the peer's kernel
    cannot be read, or neither side launches anything.
    """

    def result(status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
        return CheckResult("ir", case.op, case.id, status, reason, {"arch": arch, **(data or {})}, details, case.dtype)

    if not ours and not theirs:
        return result(NOT_RUN, "neither side launches a kernel")
    if not ours:
        return result(FAIL, f"our op launches nothing where cuTile Python launches {', '.join(t.name for t in theirs)}")
    if not theirs:
        return result(NOT_RUN, f"cuTile Python launches nothing to compare {', '.join(o.name for o in ours)} with")
    try:
        read = read or reader()
    except ToolchainError as error:
        return result(NOT_RUN, str(error))
    rows: list[dict[str, Any]] = []
    found: set[str] = set()
    sentences: list[str] = [text for text in [count_difference(ours, theirs)] if text]
    for both in pair(ours, theirs):
        try:
            mine = read(both.ours.bytecode)
        except CompileError as error:
            return result(FAIL, f"our kernel {both.ours.name} is no valid Tile IR", details=str(error))
        try:
            peer = read(both.theirs.bytecode)
        except CompileError as error:
            return result(NOT_RUN, f"cuTile Python's kernel {both.theirs.name} cannot be read: {error}")
        comparison = compare_kernels(mine, peer, arch)
        found.update(comparison.categories)
        if not comparison.equal:
            sentences.append(f"{both.ours.name} / {both.theirs.name}: {comparison.summary()}")
        rows.append(
            {
                **both.to_dict(),
                "launch_differences": both.launch_differences(),
                "differences": [difference.to_dict() for difference in comparison.differences],
                "categories": list(comparison.categories),
                "operations": {name: list(counts) for name, counts in comparison.operations.items()},
                "operation_counts": [sum(mine.counts.values()), sum(peer.counts.values())],
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
        return result(PASS, "IR-EQUAL in operations, tile shapes, memory families, control flow and hints", data)
    short = "differs in " + (", ".join(categories) or "number of launches or of uncategorized operations")
    return result(PASS, short, data, "\n".join(sentences))
