# SPDX-License-Identifier: MIT
"""Bytecode files put together section by section, each section as wrong as a test wants it."""

from __future__ import annotations

from collections.abc import Mapping

from ir_writer import table
from ir_writer import varint

from tilegym_rs_backend.tile_ir.table import layouts

STRINGS, FUNCTIONS, DEBUG, CONSTANTS, TYPES, GLOBALS, PRODUCER = range(1, 8)
_NUMBERS = {layout.name: number for number, layout in layouts((13, 4)).items()}
# Types of a minimal file: a function without anything, i32, a tile of it, a token.
NOTHING, I32 = b"\x10\x00\x00", b"\x02"
STRING_TABLE = table([b"k", b"x"], 4)
TOKEN = b"\x11"
TYPE_TABLE = table([NOTHING, I32, b"\x0d\x01" + varint(0), TOKEN], 4)


def op(name: str, rest: bytes = b"") -> bytes:
    return varint(_NUMBERS[name]) + rest


RETURN = op("return", b"\0\0")  # no results, no operands


def function(
    body: bytes = RETURN, name: int = 0, type: int = 0, flags: int = 2, loc: int = 0, length: int | None = None
) -> bytes:
    head = varint(name) + varint(type) + bytes([flags]) + varint(loc)
    return head + varint(len(body) if length is None else length) + body


def functions(*each: bytes, count: int | None = None) -> bytes:
    return varint(len(each) if count is None else count) + b"".join(each)


GOOD: Mapping[int, bytes] = {FUNCTIONS: functions(function()), TYPES: TYPE_TABLE, STRINGS: STRING_TABLE}
_ALIGNMENT = {FUNCTIONS: 8, DEBUG: 8, CONSTANTS: 8, TYPES: 4, STRINGS: 4}


def file(
    changed: Mapping[int, bytes | None] | None = None,
    *,
    version: tuple[int, int] = (13, 4),
    tag: int = 0,
    end: bytes = b"\0",
    lengths: Mapping[int, int] | None = None,
) -> bytes:
    """A file with the sections of `GOOD`, but for those `changed` (None: absent) or announced with other `lengths`."""
    sections = {**GOOD, **(changed or {})}
    out = b"\x7fTileIR\0" + bytes(version) + tag.to_bytes(2, "little")
    for number, data in sections.items():
        if data is None:
            continue
        alignment = _ALIGNMENT.get(number, 1)
        out += bytes([number | (0x80 if alignment > 1 else 0)]) + varint((lengths or {}).get(number, len(data)))
        if alignment > 1:
            out += varint(alignment)
            out += b"\xcb" * (-len(out) % alignment)
        out += data
    return out + end
