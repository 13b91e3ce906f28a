# SPDX-License-Identifier: MIT
"""Where a tile of a view lies in memory: one box per block, blocks a constant distance apart in one box together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tilegym_rs_backend.tile_ir.execute.access import Box
from tilegym_rs_backend.tile_ir.execute.access import Indexed
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import item_size
from tilegym_rs_backend.tile_ir.execute.dtypes import natural
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import View
from tilegym_rs_backend.tile_ir.execute.memory import Allocation
from tilegym_rs_backend.tile_ir.types import GatherScatterViewType
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import StridedViewType

_FARTHEST = 1 << 62
PADDING = {"zero": 0.0, "neg_zero": -0.0, "nan": np.nan, "pos_inf": np.inf, "neg_inf": -np.inf}


def poison(element: ScalarType) -> float:
    """Return a value of the type that shows if anything uses it."""
    if element.is_float:
        return float("nan")
    return {1: 1, 4: -6}.get(element.bits, -(1 << (element.bits - 1)) + 0x5A)


class Piece(NamedTuple):
    """Part of an access: which rows (blocks) and which part of their tile lie in `box` of `allocation`."""

    rows: slice
    place: tuple[slice, ...]
    box: Box
    allocation: Allocation

    @property
    def within(self) -> tuple[slice, ...]:
        """Where the elements of `box` are in the value of all blocks."""
        return (self.rows, *self.place)


@dataclass(frozen=True)
class Tiling:
    """A view type's geometry: the tile, the tensor axis each of its axes lies along, and how far tiles are apart."""

    tile: tuple[int, ...]
    dim_map: tuple[int, ...]
    steps: tuple[int, ...]
    element: ScalarType
    padding: str | None
    sparse: int | None
    inbounds: tuple[bool, ...] = ()

    @staticmethod
    def of(type: object, inbounds: tuple[bool, ...] = ()) -> Tiling:
        """Return the geometry of a view type."""
        if isinstance(type, PartitionViewType):
            return Tiling(type.tile, type.dim_map, type.tile, type.view.element, type.padding, None, inbounds)
        if isinstance(type, StridedViewType):
            steps = type.traversal_strides
            return Tiling(type.tile, type.dim_map, steps, type.view.element, type.padding, None, inbounds)
        if isinstance(type, GatherScatterViewType):  # indices count elements
            axes, ones = tuple(range(len(type.tile))), (1,) * len(type.tile)
            return Tiling(type.tile, axes, ones, type.view.element, type.padding, type.sparse_dim, inbounds)
        raise ExecutionError("unsupported", f"{type} is no view of tiles")

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return item_size(self.element)

    def fill(self, undetermined: str) -> float:
        """Return what loads outside of the tensor give; `undetermined` where the view does not say."""
        if self.padding is not None:
            return PADDING[self.padding]
        return poison(self.element) if undetermined == "poison" else 0.0

    def pieces(self, frame: Frame, view: View, index: list[Array], site: Site, every: bool) -> Iterator[Piece]:
        """Yield the pieces of a tile access; with `every` each block has its own even where all have the same.

        Raises:
            ExecutionError: outside of memory, or of the tensor where `inbounds` promises the contrary.
        """
        size = self.size
        axes = list(self.dim_map)
        columns = [_origin(each, step) for each, step in zip(index, self.steps, strict=True)]
        origin = np.stack(np.broadcast_arrays(*columns), axis=1) if columns else np.zeros((1, 0), np.int64)
        extent, strides = view.shape[:, axes], view.strides[:, axes]
        low = np.maximum(origin, 0)
        count = np.maximum(np.minimum(origin + self.tile, extent) - low, 0)
        if any(self.inbounds):
            self._promised(frame, origin, extent, site)
        address = view.pointer + (low * strides).sum(axis=1) * size
        rows = frame.n if every else max(len(address), len(count), len(strides))
        address = np.broadcast_to(address, (rows,))
        geometry = np.concatenate(np.broadcast_arrays(count, low - origin, strides), axis=1)
        geometry = np.broadcast_to(geometry, (rows, geometry.shape[1]))
        for begin, end in runs(address, geometry, size):
            count_of, shift, stride = np.split(geometry[begin], 3)
            if len(count_of) and not count_of.all():
                continue
            yield from self._run(frame, begin, end, rows, address, count_of, shift, stride, site)

    def _run(
        self,
        frame: Frame,
        begin: int,
        end: int,
        rows: int,
        address: Array,
        count: Array,
        shift: Array,
        stride: Array,
        site: Site,
    ) -> Iterator[Piece]:
        size, memory = self.size, frame.run.memory
        reach = (count - 1) * stride * size
        first, last = int(address[begin]), int(address[end - 1])
        low = min(first, last) + int(np.minimum(reach, 0).sum())
        high = max(first, last) + int(np.maximum(reach, 0).sum()) + size
        allocation = memory.find(low)
        if end - begin > 1 and (allocation is None or high > allocation.end):
            for each in range(begin, end):  # tensors of several blocks, or one block to blame
                yield from self._run(frame, each, each + 1, rows, address, count, shift, stride, site)
            return
        block = int(frame.blocks[begin if rows == frame.n else 0])
        allocation = memory.check(low, high, size, site, frame.run.coordinates(block))
        apart = (int(address[begin + 1]) - first) // size if end - begin > 1 else 0
        blocks = frame.blocks[begin:end] if rows == frame.n else frame.blocks
        box = Box(
            (first - allocation.origin) // size,
            (end - begin, *count.tolist()),
            (apart, *stride.tolist()),
            blocks.reshape(-1, *(1,) * len(count)),
        )
        place = tuple(slice(at, at + n) for at, n in zip(shift.tolist(), count.tolist(), strict=True))
        yield Piece(slice(begin, end), place, box, allocation)

    def _promised(self, frame: Frame, origin: Array, extent: Array, site: Site) -> None:
        promised = list(self.inbounds)
        outside = ((origin < 0) | (origin + self.tile > extent))[:, promised]
        if outside.any():
            row = int(np.flatnonzero(outside.any(axis=1))[0])
            raise site.error(
                "out-of-bounds",
                f"the tile at {origin[row].tolist()} leaves the tensor of extents {extent[min(row, len(extent) - 1)]} "
                "though the operation promises that it does not (inbounds): let it check, or fix the index",
                frame.run.coordinates(int(frame.blocks[row])),
            )

    def scattered(
        self, frame: Frame, view: View, index: list[Array], site: Site
    ) -> tuple[Array, Array | None, Allocation | None]:
        """Return element numbers (blocks, tile...) of a gather/scatter access, which of them exist, and where.

        The mask is None where all do, the allocation None where none does.
        """
        size, rank = self.size, len(self.tile)
        offset: Array = view.pointer.reshape(-1, *(1,) * rank)
        inside: Array = np.ones((1,) * (rank + 1), np.bool_)
        for axis, at in enumerate(index):
            line = np.clip(natural(at), -_FARTHEST, _FARTHEST).reshape(len(at), -1)
            if axis != self.sparse:
                line = line + np.arange(self.tile[axis])
            line = line.reshape(len(line), *(-1 if each == axis else 1 for each in range(rank)))
            extent = view.shape[:, axis].reshape(-1, *(1,) * rank)
            stride = view.strides[:, axis].reshape(-1, *(1,) * rank)
            inside = inside & (line >= 0) & (line < extent)
            offset = offset + line * stride * size
        return locate(frame, offset, None if inside.all() else inside, size, site)


def _origin(index: Array, step: int) -> Array:
    """Return where along an axis the tile of an index begins; what is too far for a number stays far."""
    farthest = _FARTHEST // step
    return np.clip(natural(index), -farthest, farthest).reshape(-1) * step


def locate(
    frame: Frame, address: Array, mask: Array | None, size: int, site: Site
) -> tuple[Array, Array | None, Allocation | None]:
    """Return element numbers of addresses, the mask broadcast to them, and the one allocation they lie in."""
    if mask is not None:
        address, mask = np.broadcast_arrays(address, mask)
        if not mask.any():
            return address, mask, None
        active = address[mask]
    else:
        active = address
    low, high = int(active.min()), int(active.max()) + size
    allocation = frame.run.memory.find(low)
    if allocation is None or high > allocation.end or (active % size).any():
        _blame(frame, address, mask, size, site)
        raise site.error("unsupported", "one operation on the elements of several tensors")
    return (address - allocation.origin) // size, mask, allocation


def _blame(frame: Frame, address: Array, mask: Array | None, size: int, site: Site) -> None:
    for row in range(len(address)):
        active = address[row] if mask is None else address[row][mask[row]]
        block = frame.run.coordinates(int(frame.blocks[row if len(address) == frame.n else 0]))
        for each in np.unique(active).tolist():
            frame.run.memory.check(each, each + size, size, site, block)


def lanes(frame: Frame, index: Array, mask: Array | None) -> Indexed:
    """Return the access of the active lanes."""
    blocks = frame.blocks.reshape(-1, *(1,) * (index.ndim - 1))
    if mask is None:
        return Indexed(index, blocks)
    if len(index) == 1:
        return Indexed(index[mask], frame.blocks.reshape(-1, 1))
    return Indexed(index[mask], np.broadcast_to(blocks, index.shape)[mask])


def runs(address: Array, geometry: Array, size: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of blocks with equal geometry whose addresses are a constant whole number of elements apart."""
    n = len(address)
    if n == 1:
        yield 0, 1
        return
    apart = np.diff(address)
    same = (geometry[1:] == geometry[:-1]).all(axis=1) & (apart % size == 0)
    if same.all() and (apart == apart[0]).all():
        yield 0, n
        return
    begin = 0
    while begin < n:
        end = begin + 1
        while end < n and same[end - 1] and (end == begin + 1 or apart[end - 1] == apart[begin]):
            end += 1
        yield begin, end
        begin = end
