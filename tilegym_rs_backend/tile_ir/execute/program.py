# SPDX-License-Identifier: MIT
"""A compiled entry, and one run of it over a grid."""

from __future__ import annotations

import math
import operator
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
from tilegym_rs_backend.tile_ir.execute.rounding import rounder
from tilegym_rs_backend.tile_ir.model import Global
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import Type

BATCH_ELEMENTS = 1 << 16
"""Elements that the largest tile of a batch may have in all its blocks together: what stays in a core's cache."""
_LARGEST_GRID = (2**31 - 1, 65535, 65535)
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
        iterations: a `loop` that turns more often is called endless; so are loops that together turn 16 times as often
            in one batch.
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
    first_block: int = 0
    turns: int = 0
    _synchronized: Array = field(default_factory=lambda: np.zeros(0, np.bool_))

    def begin(self, blocks: Array) -> None:
        """Begin a batch of consecutive blocks."""
        self.first_event, self.first_block, self.turns = self.event, int(blocks[0]), 0
        self._synchronized = np.zeros(len(blocks), np.bool_)
        self.statistics.batches += 1

    def synchronize(self, blocks: Array) -> None:
        """Note that these blocks of the batch wait for what others did."""
        self._synchronized[blocks - self.first_block] = True

    def synchronized(self, blocks: Array) -> Array:
        """Return which of these blocks of the batch did."""
        return np.asarray(self._synchronized[blocks - self.first_block])

    def turned(self, frame: Frame, site: Site) -> None:
        """Count a turn of a loop.

        Raises:
            ExecutionError: the batch's loops have turned too often.
        """
        self.turns += 1
        if self.turns > 16 * self.options.iterations:
            raise site.error(
                "endless",
                f"the loops turned {self.turns - 1} times: they do not end, or not before anybody stops waiting",
                self.coordinates(int(frame.blocks[0])),
            )

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
        x, y, z = grid_of(grid)
        total = x * y * z
        values = self._parameters(arguments)
        statistics = Statistics(blocks=total, approximate=self.approximate)
        memory.forget_stores()
        run = Run((x, y, z), memory, options, self._globals(memory), statistics)
        size = options.batch or max(1, min(self.batch_elements // self.largest_tile, 4096))
        if self.sequential:
            size = 1
        with np.errstate(all="ignore"), one_thread():
            for begin in range(0, total, size):
                blocks = np.arange(begin, min(begin + size, total))
                run.begin(blocks)
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
                values[slot] = _value(argument, dtype, type)
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
            if len(data) not in (wanted, max(bits // 8, 1)):
                raise ExecutionError(
                    "malformed", f"global {each.name}: {len(data)} bytes are no {each.type}", op="global"
                )
            if len(data) < wanted:  # one element stands for all
                data = np.tile(data, wanted // len(data))
            addresses[each.name] = memory.add_array(data, f"global {each.name}", max(bits // 8, 1))
        return addresses


def grid_of(grid: Sequence[int]) -> tuple[int, int, int]:
    """Return a launch's blocks per axis.

    Raises:
        ExecutionError: no CUDA launch may have this grid, or this process could not number its blocks.
    """
    extents = [operator.index(extent) if hasattr(extent, "__index__") else -1 for extent in (*grid, 1, 1, 1)]
    if len(grid) > 3 or min(extents) < 0:
        raise ExecutionError("arguments", f"a grid of {tuple(grid)}: up to three whole numbers, none negative")
    x, y, z = extents[:3]
    if x > _LARGEST_GRID[0] or y > _LARGEST_GRID[1] or z > _LARGEST_GRID[2]:
        raise ExecutionError("arguments", f"a grid of {tuple(grid)}: CUDA has at most {_LARGEST_GRID}")
    if x * y * z > _LARGEST_GRID[0]:
        raise ExecutionError("unsupported", f"a grid of {tuple(grid)} has more blocks than can be told apart here")
    return x, y, z


def _value(argument: int | float | bool, dtype: np.dtype[Any], type: Type) -> Array:
    """Return a launch parameter's value; raises ValueError, TypeError or OverflowError for what is none."""
    if getattr(type, "shape", ()):
        raise TypeError("a launch passes scalars only")
    if dtype.kind in "ib" and not isinstance(argument, int):
        raise TypeError("a whole number is expected")
    if dtype.kind == "b" and argument not in (0, 1):
        raise ValueError("0 or 1 is expected")
    element = element_of(type)
    with np.errstate(over="ignore"):
        value = np.array([_bits(argument, dtype, type)], dtype)
        rounding = rounder(element) if isinstance(element, ScalarType) and element.is_float else None
        return value if rounding is None else rounding(value)


def _bits(argument: int | float | bool, dtype: np.dtype[Any], type: Type) -> int | float | bool:
    # Addresses and integers beyond the signed maximum are meant as bit patterns.
    if dtype.kind == "i" and isinstance(argument, int) and not isinstance(type, ScalarType):
        width = 8 * dtype.itemsize
        if argument >> (width - 1) == 1:
            return argument - (1 << width)
    return argument
