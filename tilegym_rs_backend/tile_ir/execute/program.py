# SPDX-License-Identifier: MIT
"""A compiled entry, and one run of it over a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.by_torch import one_thread
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import element_of
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Region
from tilegym_rs_backend.tile_ir.execute.memory import Memory
from tilegym_rs_backend.tile_ir.model import Global
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import Type

BATCH_ELEMENTS = 1 << 16
"""Elements that the largest tile of a batch may have in all its blocks together: what stays in a core's cache."""
MATRIX_BATCH_ELEMENTS = 1 << 18
"""The same for kernels that multiply matrices: there it is the number of operations that costs."""


@dataclass(frozen=True)
class Options:
    """How to run.

    Attributes:
        checks: look for races, unordered and uninitialized accesses and false assumptions (accesses outside of
            memory and failed assertions always stop a run).
        undetermined: what loads give outside of a tensor where the kernel names no padding, and in masked lanes:
            ``"zero"`` as GPUs do, or ``"poison"``: NaN, or an odd number, which shows if the kernel uses it.
        batch: tile blocks that run together; 0: as many as fit the cache.
        printer: where a kernel's print operations go.
        iterations: a `loop` that turns more often is called endless.
    """

    checks: bool = True
    undetermined: str = "zero"
    batch: int = 0
    printer: Callable[[str], None] = print
    iterations: int = 1 << 20


@dataclass
class Statistics:
    """What a run did: blocks, batches, loads and stores (operations per batch), and `approximate`: operations whose
    approximate mode was executed exactly ("approx not exercised")."""

    blocks: int = 0
    batches: int = 0
    loads: int = 0
    stores: int = 0
    approximate: tuple[str, ...] = ()


@dataclass(eq=False)
class Run:
    """One launch in progress: what all its batches share."""

    grid: tuple[int, int, int]
    memory: Memory
    options: Options
    globals: dict[str, int]
    statistics: Statistics = field(default_factory=Statistics)
    event: int = 0
    first_event: int = 0
    synchronized: Array = field(default_factory=lambda: np.zeros(0, np.bool_))

    def coordinates(self, block: int) -> tuple[int, int, int]:
        """Return a block's (x, y, z) from its number."""
        x, y, _ = self.grid
        return block % x, block // x % y, block // (x * y)

    def store_event(self) -> int:
        """Begin a store: return the bit that its token gets."""
        self.event += 1
        self.statistics.stores += 1
        return 1 << (self.event - self.first_event)


@dataclass(frozen=True, eq=False)
class Program:
    """An entry, compiled; may run any number of times, also from several threads at once.

    Attributes:
        name: the entry's.
        params: types of its launch parameters: per tensor a pointer, its extents, its strides; then scalars.
        approximate: operations with an approximate mode, which are executed exactly.
    """

    name: str
    params: tuple[Type, ...]
    body: Region
    slots: int
    largest_tile: int
    batch_elements: int
    sequential: bool
    globals: tuple[Global, ...]
    approximate: tuple[str, ...]
    site: Site

    def run(
        self,
        grid: Sequence[int],
        arguments: Sequence[int | float | bool],
        memory: Memory,
        options: Options | None = None,
    ) -> Statistics:
        """Run all tile blocks.

        Args:
            grid: blocks per axis, up to three; a zero axis runs nothing.
            arguments: launch parameters in the order of `params`: addresses, extents, strides, scalars.
            memory: what may be accessed.
            options: how to run.

        Raises:
            ExecutionError: bad arguments, or a fault in the kernel. Memory may have been written by then.
        """
        options = options or Options()
        x, y, z = (*(int(extent) for extent in grid), 1, 1)[:3]
        total = x * y * z
        values = self._parameters(arguments)
        statistics = Statistics(blocks=total, approximate=self.approximate)
        memory.forget_stores()
        run = Run((x, y, z), memory, options, self._globals(memory), statistics)
        run.synchronized = np.zeros(max(total, 0), np.bool_)
        size = options.batch or max(1, min(self.batch_elements // self.largest_tile, 4096))
        if self.sequential:
            size = 1
        with np.errstate(all="ignore"), one_thread():
            for begin in range(0, total, size):
                blocks = np.arange(begin, min(begin + size, total))
                run.first_event = run.event
                statistics.batches += 1
                self.body.run(Frame(list(values), blocks, run))
        return statistics

    def _parameters(self, arguments: Sequence[int | float | bool]) -> list[Any]:
        if len(arguments) != len(self.params):
            raise ExecutionError(
                "arguments",
                f"{self.name} takes {len(self.params)} launch parameters (per tensor its address, extents and strides; "
                f"then scalars), got {len(arguments)}",
            )
        values: list[Any] = [None] * self.slots
        for slot, argument, type in zip(self.body.params, arguments, self.params, strict=True):
            dtype = carrier(element_of(type))
            try:
                values[slot] = np.array([_bits(argument, dtype, type)], dtype)
            except (OverflowError, TypeError, ValueError) as error:
                raise ExecutionError(
                    "arguments", f"{self.name}: {argument!r} is no {type} (launch parameter {slot}): {error}"
                ) from error
        return values

    def _globals(self, memory: Memory) -> dict[str, int]:
        addresses = {}
        for each in self.globals:
            element = element_of(each.type)
            bits = 64 if isinstance(element, PointerType) else element.bits
            data = np.frombuffer(each.data, np.uint8).copy()
            wanted = math.prod(getattr(each.type, "shape", ())) * max(bits // 8, 1)
            if len(data) < wanted:  # one element stands for all
                data = np.tile(data, wanted // len(data))
            addresses[each.name] = memory.add_array(data, f"global {each.name}", max(bits // 8, 1))
        return addresses


def _bits(argument: int | float | bool, dtype: np.dtype[Any], type: Type) -> int | float | bool:
    # Addresses and integers beyond the signed maximum are meant as bit patterns.
    if dtype.kind == "i" and isinstance(argument, int) and not isinstance(type, ScalarType):
        width = 8 * dtype.itemsize
        if argument >> (width - 1) == 1:
            return argument - (1 << width)
    return argument
