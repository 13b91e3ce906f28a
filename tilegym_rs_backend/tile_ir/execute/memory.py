# SPDX-License-Identifier: MIT
"""Memory: the tensors a launch may touch, by address, over the bytes they already have.

Beside the bytes an allocation can have a *written* map (for memory nobody filled before) and, from its first store in a
launch on, a *shadow*: who stored each element, and in which event. Both count in granules, the size of the tensor's
elements unless something accesses smaller ones.
"""

from __future__ import annotations

import bisect
import ctypes
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 16


class Shadow:
    """Per granule: the block that stored it last (number + 1, 0: none, -1: an atomic) and the event of that store."""

    __slots__ = ("event", "writer")

    def __init__(self, granules: int) -> None:
        self.writer: Array = np.zeros(granules, np.int32)
        self.event: Array = np.zeros(granules, np.int32)


def _bytes_at(address: int, size: int) -> Array:
    raw: Any = (ctypes.c_uint8 * size).from_address(address)
    return np.frombuffer(raw, np.uint8)


class Allocation:
    """One range of addresses [base, end).

    ``origin`` is `base` rounded down to what any element is aligned to: element and granule numbers count from there.
    """

    __slots__ = ("_data", "_typed", "base", "end", "granule", "keep", "name", "origin", "shadow", "written")

    def __init__(self, base: int, size: int, name: str, granule: int, written: bool, keep: object = None) -> None:
        self.base = base
        self.end = base + size
        self.origin = base & -_ALIGNMENT
        self.name = name
        self.granule = granule
        self.keep = keep
        self.written: Array | None = None if written else np.zeros(self._granules(), np.bool_)
        self.shadow: Shadow | None = None
        self._data = _bytes_at(self.origin, self.end - self.origin)
        self._typed: dict[np.dtype[Any], Array] = {}

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.base

    def typed(self, dtype: np.dtype[Any]) -> Array:
        """Return the memory from `origin` on as elements of `dtype`."""
        found = self._typed.get(dtype)
        if found is None:
            whole = len(self._data) // dtype.itemsize * dtype.itemsize
            found = self._typed[dtype] = self._data[:whole].view(dtype)
        return found

    def refine(self, size: int) -> None:
        """Make granules at most `size` bytes."""
        if size >= self.granule:
            return
        factor = self.granule // size
        self.granule = size
        if self.written is not None:
            self.written = np.repeat(self.written, factor)
        if self.shadow is not None:
            self.shadow.writer = np.repeat(self.shadow.writer, factor)
            self.shadow.event = np.repeat(self.shadow.event, factor)

    def shadowed(self) -> Shadow:
        """Return the shadow, created at the first call."""
        if self.shadow is None:
            self.shadow = Shadow(self._granules())
        return self.shadow

    def set_written(self, written: Array) -> None:
        """Say which bytes of [base, end) were filled before."""
        padded = np.ones(self._granules() * self.granule, np.bool_)
        padded[self.base - self.origin : self.end - self.origin] = written
        self.written = np.asarray(padded.reshape(-1, self.granule).all(axis=1))

    def get_written(self) -> Array:
        """Return which bytes of [base, end) are filled."""
        if self.written is None:
            return np.ones(self.size, np.bool_)
        return np.repeat(self.written, self.granule)[self.base - self.origin : self.end - self.origin]

    def _granules(self) -> int:
        return -(-(self.end - self.origin) // self.granule)


class Memory:
    """The allocations of a launch. Memory outside of them does not exist."""

    def __init__(self) -> None:
        self._bases: list[int] = []
        self._allocations: list[Allocation] = []

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """The allocations, by address."""
        return tuple(self._allocations)

    def add_tensor(self, tensor: torch.Tensor, name: str = "", *, written: bool = True) -> None:
        """Register the elements of a CPU tensor, from the first to the last.

        Args:
            tensor: strided, on the CPU; it is kept alive.
            name: what messages call it.
            written: False if nobody filled it yet: reading an element before it is stored is then an error.
        """
        if tensor.numel() == 0:
            return
        span = 1 + sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
        self.add_range(tensor.data_ptr(), span * tensor.element_size(), name, tensor.element_size(), written, tensor)

    def add_range(
        self, base: int, size: int, name: str = "", granule: int = 1, written: bool = True, keep: object = None
    ) -> None:
        """Register `size` bytes at address `base`, which must stay valid; ranges that overlap become one."""
        if size <= 0:
            return
        if granule > _ALIGNMENT or base % granule:
            granule = 1
        end = base + size
        for other in self._overlapping(base, end):
            index = self._allocations.index(other)
            del self._allocations[index], self._bases[index]
            written = written or other.written is None
            keep = (keep, other.keep)
            granule = min(granule, other.granule)
            name = f"{other.name} and {name}" if other.name != name else name
            base, end = min(base, other.base), max(end, other.end)
        self._insert(Allocation(base, end - base, name, granule, written, keep))

    def add_array(self, data: Array, name: str, granule: int = 1, written: bool = True) -> int:
        """Register the bytes of a contiguous array, which is kept; returns their address."""
        base = int(data.ctypes.data)
        self._insert(Allocation(base, data.nbytes, name, granule, written, data))
        return base

    def forget_stores(self) -> None:
        """Start a launch: what earlier launches stored counts as memory that was there before."""
        for allocation in self._allocations:
            allocation.shadow = None

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that holds the byte at `address`."""
        index = bisect.bisect_right(self._bases, address) - 1
        if index < 0:
            return None
        found = self._allocations[index]
        return found if address < found.end else None

    def describe(self, address: int) -> str:
        """Return where an address lies, for a message."""
        index = bisect.bisect_right(self._bases, address) - 1
        near = [self._allocations[each] for each in (index, index + 1) if 0 <= each < len(self._allocations)]
        if not near:
            return f"{address:#x}, and no tensor is registered"
        closest = min(near, key=lambda each: min(abs(address - each.base), abs(address - each.end)))
        where = address - closest.base
        name = closest.name or "a tensor"
        if where < 0:
            return f"{-where} bytes before {name} ({closest.size} bytes)"
        return f"byte {where} of {name}, which has {closest.size}"

    def check(self, low: int, high: int, size: int, site: Site, block: tuple[int, int, int] | None) -> Allocation:
        """Return the allocation that holds all of [low, high); raises ExecutionError if none does."""
        found = self.find(low)
        if found is None or high > found.end:
            bad = low if found is None else high - size
            raise site.error(
                "out-of-bounds",
                f"access to {self.describe(bad)}: an index, a mask or a tensor's extents and strides are wrong",
                block,
            )
        if low % size:
            raise site.error("misaligned", f"address {low:#x} is no multiple of the element's {size} bytes", block)
        return found

    def _overlapping(self, base: int, end: int) -> list[Allocation]:
        return [each for each in self._allocations if each.base < end and base < each.end]

    def _insert(self, allocation: Allocation) -> None:
        if self._overlapping(allocation.base, allocation.end):
            raise ExecutionError("arguments", f"{allocation.name} overlaps memory that is registered already")
        index = bisect.bisect_left(self._bases, allocation.base)
        self._bases.insert(index, allocation.base)
        self._allocations.insert(index, allocation)
