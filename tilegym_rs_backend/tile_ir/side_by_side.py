# SPDX-License-Identifier: MIT
"""Two kernels' Tile IR beside each other, aligned by operation, each line with its place in the source."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from tilegym_rs_backend.tile_ir.liveness import TERMINATORS
from tilegym_rs_backend.tile_ir.liveness import Liveness
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.printer import Line
from tilegym_rs_backend.tile_ir.printer import lines
from tilegym_rs_backend.tile_ir.printer import place
from tilegym_rs_backend.tile_ir.printer import printable

_NAMES = re.compile(r"%\w+")
_SAME, _CHANGED, _OURS, _THEIRS = " ", "|", "<", ">"
NARROWEST = 60
# A place longer than this share of a column would leave the operation no room.
_PLACE_SHARE = 3


def side_by_side(ours: Function, theirs: Function, width: int = 160, *, only_differences: bool = False) -> str:
    """Both functions in two columns of together ``width`` characters; with ``only_differences`` without dead code.

    Between them stands what a line is: the same operation on both sides but for the values' names (blank), another one
    (``|``), or one of ours (``<``) or theirs (``>``) alone.
    """
    column = (max(width, NARROWEST) - 3) // 2
    titles = [f"ours: {printable(ours.name)}", f"theirs: {printable(theirs.name)}"]
    rows = [f"{_fit(titles[0], column)}   {_fit(titles[1], column).rstrip()}"]
    skipped = 0
    sides = [_live(function) if only_differences else lines(function) for function in (ours, theirs)]
    for mark, left, right in _aligned(*sides):
        if only_differences and mark == _SAME:
            skipped += 1
            continue
        if skipped:
            rows.append(f"  .. {skipped} equal lines")
            skipped = 0
        rows.append(f"{_cell(left, column)} {mark} {_cell(right, column)}".rstrip())
    if skipped:
        rows.append(f"  .. {skipped} equal lines")
    return "\n".join(rows) + "\n"


def _live(function: Function) -> list[Line]:
    live = Liveness(function).ops
    return [line for line in lines(function) if _kept(line.op or line.owner, live)]


def _kept(op: Op | None, live: set[Op]) -> bool:
    return op is None or op in live or op.opcode in TERMINATORS


def _aligned(ours: list[Line], theirs: list[Line]) -> Iterator[tuple[str, Line | None, Line | None]]:
    # The first line is the signature: names and hints differ, the rest is compared below it.
    keys = [[""] + [_NAMES.sub("%", line.text) for line in side[1:]] for side in (ours, theirs)]
    matcher = difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield from ((_SAME, ours[a + i], theirs[c + i]) for i in range(b - a))
            continue
        for i in range(max(b - a, d - c)):
            left = ours[a + i] if a + i < b else None
            right = theirs[c + i] if c + i < d else None
            yield _CHANGED if left and right else _OURS if left else _THEIRS, left, right


def _cell(line: Line | None, column: int) -> str:
    if line is None:
        return " " * column
    where = place(line.loc) if line.loc and line.op else ""
    if len(where) > column // _PLACE_SHARE:
        where = where.split(" < ")[0][-(column // _PLACE_SHARE) :]
    room = column - len(where) - (1 if where else 0)
    return f"{_fit(line.text, room)}{' ' if where else ''}{where}"


def _fit(text: str, room: int) -> str:
    return f"{text:<{room}}" if len(text) <= room else f"{text[: room - 2]}.."
