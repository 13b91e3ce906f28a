# SPDX-License-Identifier: MIT
"""Tiles of pointers that are rows of consecutive elements, as gathers of whole rows make them: boxes, not lists.

An access by a list of indices costs ten times that of a box; the look that tells them apart costs little.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tilegym_rs_backend.tile_ir.execute.access import Box
from tilegym_rs_backend.tile_ir.execute.boxes import runs
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.memory import Allocation

SHORTEST = 16
"""Rows shorter than this are not worth a box each."""


class Rows(NamedTuple):
    """Rows [begin, end) of a tile seen as (rows, lanes): their first `width` lanes lie in `box`."""

    begin: int
    end: int
    width: int
    box: Box
    allocation: Allocation


def rows_of(frame: Frame, address: Array, mask: Array | None, size: int, site: Site) -> list[Rows] | None:
    """Return the boxes of a tile of addresses (blocks, ..., lanes), None where it is not made of rows.

    Raises:
        ExecutionError: outside of memory, or misaligned.
    """
    lanes = address.shape[-1] if address.ndim > 1 else 1
    if lanes < SHORTEST:
        return None
    first = address[..., 0].reshape(-1)
    if mask is None:
        count = np.full(len(first), lanes)
    else:
        if mask.shape[1:] != address.shape[1:] or len(mask) not in (1, len(address)):
            return None
        count = np.count_nonzero(mask, axis=-1)
        if not (mask == (np.arange(lanes) < count[..., None])).all():
            return None
        count = np.broadcast_to(count, address.shape[:-1]).reshape(-1)
    ramp = address[..., :1] + np.arange(0, lanes * size, size)
    if not (address == ramp).all():
        return None
    owners = len(first) // len(address)
    blocks = np.repeat(frame.blocks if len(address) == frame.n else frame.blocks[:1], owners)
    found = []
    for begin, end in runs(first, count[:, None], size):
        n = int(count[begin])
        if n:
            found += _checked(frame, first, begin, end, n, size, blocks, site)
    return found


def _checked(
    frame: Frame, first: Array, begin: int, end: int, count: int, size: int, blocks: Array, site: Site
) -> list[Rows]:
    start, last = int(first[begin]), int(first[end - 1])
    low, high = min(start, last), max(start, last) + count * size
    allocation = frame.run.memory.find(low)
    if end - begin > 1 and (allocation is None or high > allocation.end):
        return [
            piece
            for each in range(begin, end)
            for piece in _checked(frame, first, each, each + 1, count, size, blocks, site)
        ]
    block = frame.run.coordinates(int(blocks[begin]))
    allocation = frame.run.memory.check(low, high, size, site, block)
    apart = (int(first[begin + 1]) - start) // size if end - begin > 1 else 0
    box = Box((start - allocation.origin) // size, (end - begin, count), (apart, 1), blocks[begin:end, None])
    return [Rows(begin, end, count, box, allocation)]
