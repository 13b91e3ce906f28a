# SPDX-License-Identifier: MIT
"""Elements of a constant's bytes: truth values lie eight to a byte there, and one element may stand for all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import Type


def plain(data: bytes, kind: Type) -> bytes:
    """Return a constant's elements with a byte, 0 or 1, for each truth value; one element where all are equal.

    Bytes that are no constant of that type are returned as they are.
    """
    if not isinstance(kind, TileType) or not isinstance(kind.element, ScalarType):
        return data
    count, width = math.prod(kind.shape), max(1, kind.element.bits // 8)
    if kind.element.name == "i1":
        data = _truth_values(data, count)
    if len(data) == width * count and data == data[:width] * count:
        return data[:width]
    return data


def folded(opcode: str, elements: Sequence[bytes | None], kind: Type) -> bytes | None:
    """Return the element of the constant that an operation makes of constants; None where it is known to make none.

    Args:
        opcode: ``"bitcast"``, ``"negf"`` (flips the sign bit) or ``"subi"`` (wraps around).
        elements: of each operand the one element that fills it, None where it is no such constant.
        kind: the result's type.
    """
    element = kind.element if isinstance(kind, TileType) else None
    if not isinstance(element, ScalarType) or element.name == "i1":
        return None
    known = [each for each in elements if each is not None and len(each) * 8 == max(8, element.bits)]
    if len(known) != len(elements) or element.bits % 8:
        return None
    if opcode == "bitcast":
        return known[0]
    if opcode == "negf":
        return known[0][:-1] + bytes([known[0][-1] ^ 0x80])
    if opcode == "subi" and len(known) == 2:
        a, b = (int.from_bytes(each, "little") for each in known)
        return ((a - b) % (1 << element.bits)).to_bytes(len(known[0]), "little")
    return None


def _truth_values(data: bytes, count: int) -> bytes:
    # As tileirdisasm reads them: as many bytes as hold the bits, the first in the lowest; else one byte for all.
    if len(data) == -(-count // 8):
        bits = int.from_bytes(data, "little")
        whole = (1 << count) - 1
        if bits & whole in (0, whole):
            return b"\1" if bits & whole else b"\0"
        return bytes(data[i >> 3] >> (i & 7) & 1 for i in range(count))
    return (b"\1" if data[0] else b"\0") if len(data) == 1 else data
