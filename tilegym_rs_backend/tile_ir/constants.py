# SPDX-License-Identifier: MIT
"""Elements of a constant's bytes: truth values lie eight to a byte there, and one element may stand for all."""

from __future__ import annotations

import math

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


def _truth_values(data: bytes, count: int) -> bytes:
    # As tileirdisasm reads them: as many bytes as hold the bits, the first in the lowest; else one byte for all.
    if len(data) == -(-count // 8):
        bits = int.from_bytes(data, "little")
        whole = (1 << count) - 1
        if bits & whole in (0, whole):
            return b"\1" if bits & whole else b"\0"
        return bytes(data[i >> 3] >> (i & 7) & 1 for i in range(count))
    return (b"\1" if data[0] else b"\0") if len(data) == 1 else data
