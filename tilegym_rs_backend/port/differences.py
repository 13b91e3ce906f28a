# SPDX-License-Identifier: MIT
"""The IR-difference report: how a launch's two kernels differ, whose fault it is, and why.

A fault is the *kernel*'s where our text says something else than the original does, and a *compiler*'s where the text
says the same and a compiler makes something else of it: the cutile-rs front end (a list of what it is known for), or
tileiras, which is not deterministic for every kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..tile_ir.features import HINT
from ..tile_ir.model import Function
from ..tile_ir.printer import place
from ..tile_ir.roots import ASSUMPTION
from ..tile_ir.roots import CONTROL
from ..tile_ir.roots import HINT as HINTS
from ..tile_ir.roots import PLACEMENT
from ..tile_ir.roots import Root
from ..tile_ir.roots import roots
from ..tile_ir.side_by_side import side_by_side
from ..tile_ir.verdict import Sameness
from ..tile_ir.verdict import compare

KERNEL, COMPILER = "kernel", "compiler"
_TEXT, _FRONT_END, _TILEIRAS, _PYTHON = "the text", "cutile-rs's front end", "tileiras", "cuTile Python"


@dataclass(frozen=True)
class Known:
    """Something that cutile-rs's front end is known to do to a text that says the right thing."""

    matches: Callable[[Root], bool]
    why: str
    fix: str


_KNOWN = (
    Known(
        lambda root: root.category == ASSUMPTION and "bounded" in root.ours and not root.theirs,
        "it attaches bounds to block indices, grid extents and loop counters; cuTile Python has none",
        "name the parity pass drop_bounds",
    ),
    Known(
        lambda root: root.theirs.startswith("load_ptr_tko") and root.our_opcode in ("load_ptr_tko", "select", ""),
        "it has no padded load of a tile of addresses: the padding is a select behind the load",
        "name the pass fold_pads",
    ),
    Known(
        lambda root: root.our_opcode == root.their_opcode == "trunci",
        "it has no truncation that may lose bits",
        "name the pass wrapping_truncations",
    ),
    Known(
        lambda root: root.our_opcode == root.their_opcode == "scan" and root.category == "axis",
        "it ignores the axis of a scan",
        "name the axes: the pass scan_axes = [..]",
    ),
    Known(
        lambda root: root.ours.startswith("constant(0) : ") and root.theirs.startswith("constant(-"),
        "it reads an unsigned literal above the signed maximum as 0",
        "write the bits as a negative literal of the signed type, and bitcast",
    ),
)

_UNCOMPARED = {
    "REFUSED": (KERNEL, _TEXT, "the translator has no proven Rust form for the construct", "write it, or --on-refused"),
    "NOT-BUILT": (KERNEL, _TEXT, "rustc or build.rs refuses the text", "the detail names the line"),
    "NOT-COMPILED": (COMPILER, _FRONT_END, "rustc accepts the text; a later compiler does not", "see the detail"),
    "NO-ORIGINAL": (COMPILER, _PYTHON, "the original itself cannot be compiled", "see the detail"),
}


def report(result: dict[str, Any], ours: Function | None, theirs: Function | None, arch: str) -> dict[str, Any]:
    """Return the report of one launch that is not identical; JSON types.

    Args:
        result: the launch's row of the summary.
        ours, theirs: the kernels' Tile IR, None where one side has none.
        arch: to compare hints for.
    """
    head = {name: result[name] for name in ("stem", "kernel", "case", "verdict", "detail")}
    if ours is None or theirs is None:
        fault, component, why, fix = _UNCOMPARED.get(result["verdict"], (KERNEL, _TEXT, "nothing was compared", ""))
        return {**head, "fault": fault, "component": component, "why": why, "fix": fix, "differences": []}
    verdict = compare(ours, theirs, arch, ordered=True)
    if verdict.sameness is Sameness.IDENTICAL:
        why = "both sides' Tile IR has the same operations in the same order, and is assembled to different code"
        fix = "nothing in the kernel: assemble again, or take another configuration"
        return {**head, "fault": COMPILER, "component": _TILEIRAS, "why": why, "fix": fix, "differences": []}
    found = [
        _row(root)
        for root in [*roots(ours, theirs, ordered=True), *_hints(ours, theirs, arch), *_remarks(verdict.remarks)]
    ]
    if not found and verdict.sameness is Sameness.DIFFERS:
        found = [
            _row(Root(CONTROL, each.ours, each.theirs, each.our_loc, each.their_loc, "", ""))
            for each in verdict.differences
        ]
    if not found:
        found = [_row(Root(PLACEMENT, "another order", "another order", ours.loc, theirs.loc, "", ""))]
    # One fault of the text makes the kernel's meaning another one, whatever compilers do besides.
    first = next((row for row in found if row["fault"] == KERNEL), found[0])
    return {**head, **{name: first[name] for name in ("fault", "component", "why", "fix")}, "differences": found}


def _row(root: Root) -> dict[str, Any]:
    known = next((each for each in _KNOWN if each.matches(root)), None)
    if known is not None:
        fault, component, why, fix = COMPILER, _FRONT_END, known.why, known.fix
    elif root.category == PLACEMENT:
        fault, component = KERNEL, _TEXT
        why, fix = "the graph is the original's, the text has it in another order", "see both sides below"
    else:
        fault, component = KERNEL, _TEXT
        why = "the front end writes what the text says, and it says something else than the original"
        fix = "correct the emitter, or the supplied source, at the line"
    return {
        "category": root.category,
        "ours": root.ours or "nothing",
        "theirs": root.theirs or "nothing",
        "our_line": place(root.our_loc) if root.our_loc else "",
        "their_line": place(root.their_loc) if root.their_loc else "",
        "fault": fault,
        "component": component,
        "why": why,
        "fix": fix,
    }


def _hints(ours: Function, theirs: Function, arch: str) -> list[Root]:
    """Hints and assumptions: no part of the graph."""
    found = []
    for each in compare(ours, theirs, arch, ordered=True).differences:
        if each.category != HINT:
            continue
        sides = ["" if text == "none of these" else text for text in (each.ours, each.theirs)]
        category = ASSUMPTION if any(" assume " in f" {side}" for side in sides) else HINTS
        found.append(Root(category, sides[0], sides[1], each.our_loc, each.their_loc, "", ""))
    return found


def _remarks(remarks: tuple[str, ...]) -> list[Root]:
    """Assumptions of one side that hold anyway, which a compiler may use."""
    found = []
    for remark in remarks:
        side, _, text = remark.partition(" also states ")
        sides = (text, "") if side == "ours" else ("", text)
        found.append(Root(ASSUMPTION, *sides, None, None, "", ""))
    return found


def text_of(one: dict[str, Any], ours: Function | None, theirs: Function | None) -> str:
    """One launch's report for people, both sides beside each other below it."""
    lines = [
        f"{one['kernel']} [{one['case']}]: {one['verdict']} {one['detail']}".rstrip(),
        f"fault: {one['fault']} ({one['component']}): {one['why']}",
        f"fix: {one['fix']}",
    ]
    for row in one["differences"]:
        lines.append(f"- {row['category']} ({row['fault']}): {row['why']}")
        lines += [f"    {side:<6} {row[side]}  {row[line]}".rstrip() for side, line in _SIDES]
    text = "\n".join(lines) + "\n"
    return text if ours is None or theirs is None else text + side_by_side(ours, theirs, only_differences=True)


_SIDES = (("ours", "our_line"), ("theirs", "their_line"))
