# SPDX-License-Identifier: MIT
"""What the normalisations over rows share: the space of their kernels, and defaults.

The kernels hold whole rows in a tile, or read a long row twice in chunks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import Protocol
from typing import TypeVar

from ..tensors import TensorMeta
from ..tensors import dtype_name
from ..tuning.machine import Machine
from ..tuning.space import Launch
from ..tuning.space import Rule
from ..tuning.space import Space
from ..tuning.space import Value
from ..tuning.space import Work
from ..tuning.space import extent_bucket
from ..tuning.space import hints
from ._common import ceil_div
from ._common import elements_per_load
from ._common import next_power_of_2

LONGEST_TILE = 32768
"""Columns of the longest row held in one tile, and elements of the largest tile."""


@dataclass(frozen=True)
class Config:
    """Rows of a tile that holds whole rows, hints; with ``chunk``: the columns read at a time of rows read twice.

    ``tail``: columns of a row's second tile, behind half of what a power of two has that holds it.
    ``folded``: each warp has rows of its own, in pieces that are as wide as its loads.
    """

    rows: int = 1
    folded: bool = False
    tail: int = 0
    chunk: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0


class RowProblem(Protocol):
    """A normalisation of the rows of `x`, (rows, columns), with a factor `weight` per column."""

    @property
    def x(self) -> TensorMeta:
        """The input, its columns next to one another."""

    @property
    def weight(self) -> TensorMeta:
        """The factors."""


P = TypeVar("P", bound=RowProblem)


def load_width(*rows: TensorMeta) -> int:
    """Return how many elements a load of these rows can be wide; they have the same dtype."""
    return elements_per_load(math.gcd(*(n for each in rows for n in (each.shape[1], each.strides[0]))), _size(rows[0]))


def row_block(x: TensorMeta) -> int:
    """Return the columns of a tile that holds a row."""
    return max(next_power_of_2(x.shape[1]), 16)


def warp_span(x: TensorMeta) -> int:
    """Return the columns that a warp's threads load at a time, 16 bytes each."""
    return 32 * 16 // _size(x)


def row_kernel(config: Config, rows: str, long: str, pair: str = "") -> str:
    """Return which of a normalisation's kernels a configuration means."""
    if config.chunk:
        return long
    return pair if config.tail else rows


def row_grid(x: TensorMeta, config: Config) -> tuple[int, int, int]:
    """Return a block per tile of whole rows, or per row read in chunks."""
    return (x.shape[0] if config.chunk else ceil_div(x.shape[0], config.rows), 1, 1)


def row_constants(x: TensorMeta, config: Config) -> dict[str, int]:
    """Return the constants and hints that all kernels over whole rows, or all over chunks, have."""
    if config.chunk:
        return {"BLOCK": config.chunk, "ALIGN": load_width(x), **hints(config)}
    if config.tail:
        return {"MAIN": row_block(x) // 2, "TAIL": config.tail, "ALIGN": load_width(x), **hints(config)}
    return {**tile_constants(x, config.rows, config.folded), "ALIGN": load_width(x), **hints(config)}


def pair_tail(x: TensorMeta) -> int:
    """Return the columns of a row's second tile, 0 where two tiles would hardly be less than one."""
    half = row_block(x) // 2
    tail = max(next_power_of_2(max(x.shape[1] - half, 1)), 16)
    return tail if 4096 <= half < LONGEST_TILE and tail <= half // 2 else 0


def tile_constants(x: TensorMeta, rows: int, folded: bool) -> dict[str, int]:
    """Return the constants of a tile of whole rows."""
    block = row_block(x)
    span = min(block, warp_span(x)) if folded else block
    return {
        "CHUNKS": block // span,
        "ROWS": rows,
        "PARTS": block // span * rows,
        "SPAN": span,
        "EXACT": int(x.shape[1] == block and x.shape[0] % rows == 0),
    }


def row_scalars(x: TensorMeta, config: Config) -> dict[str, int | float]:
    """Return the scalars that all kernels over whole rows, or all over chunks, take."""
    rows, columns = x.shape
    extents = {"columns": columns, "pitch": x.strides[0], "share": 1.0 / columns}
    return extents if config.chunk or config.tail else {"rows": rows, **extents}


def row_default(problem: RowProblem, machine: Machine, middle: Callable[[int, int], Config], pairs: bool) -> Config:
    """Return the shipped configuration, as measured on an H200 (docs/results) for 2-byte elements.

    Bytes in flight are what counts, so it is the same for all architectures.

    Args:
        problem: the problem.
        machine: where it runs.
        middle: the configuration of rows of 1024 to 8192 columns, by the columns of a tile and the number of rows.
        pairs: there is a kernel with two tiles to a row.
    """
    x = problem.x
    block, rows = row_block(x), x.shape[0]
    if block > LONGEST_TILE:
        return Config(chunk=8192, occupancy=2, num_worker_warps=8)
    if pairs and pair_tail(x):
        return Config(tail=pair_tail(x), occupancy=2, num_worker_warps=8)
    if block > 8192:
        return Config(occupancy=2 if block == 16384 else 1, num_worker_warps=8)
    if block > 512:
        config = middle(block, rows)
        config = dataclasses.replace(config, rows=max(config.rows * 2 // _size(x), 1))
    elif block > warp_span(x):
        config = Config(4, True, num_worker_warps=4)
    elif rows < 65536:
        config = Config((1024 if rows < 16384 else 2048) // block, num_worker_warps=4)
    else:
        config = Config(8192 // block, num_worker_warps=8)
    tile = config.rows
    while tile > 1 and (ceil_div(rows, tile) < 2 * machine.sm_count or not _fits_32_bits(x, tile)):
        tile //= 2  # few rows: more blocks are worth more than full tiles
    return dataclasses.replace(config, rows=tile, folded=config.folded and tile >= config.num_worker_warps)


def row_space(
    name: str,
    launch: Callable[[P, Config, Machine], Launch],
    middle: Callable[[int, int], Config],
    pairs: bool = False,
) -> Space[P, Config]:
    """Return the space of a normalisation over rows; for `middle` and `pairs` see `row_default`."""
    rules: tuple[Rule[Any, Config], ...] = (
        Rule("chunk: a row fits half a tile", lambda p, c, _: not c.chunk or row_block(p.x) >= LONGEST_TILE),
        Rule("a row does not fit one tile", lambda p, c, _: c.chunk > 0 or row_block(p.x) <= LONGEST_TILE),
        Rule("tail: another is the row's", lambda p, c, _: not c.tail or c.tail == pair_tail(p.x)),
        Rule("rows: so far apart that 32 bits do not number a tile", lambda p, c, _: _fits_32_bits(p.x, c.rows)),
        Rule("rows: few rows make few blocks", lambda p, c, m: c.rows == 1 or p.x.shape[0] >= c.rows * m.sm_count),
        Rule(
            "folded: a warp has rows of its own, longer than its loads",
            lambda p, c, _: not c.folded or (c.rows >= c.num_worker_warps and row_block(p.x) > warp_span(p.x)),
        ),
        Rule(
            "rows: more than 4 that several warps share",
            lambda p, c, _: c.folded or c.rows <= 4 or row_block(p.x) <= warp_span(p.x),
        ),
        Rule(
            "a thread has less than 16 bytes, or less than 8 elements of a row of its block",
            lambda p, c, _: (
                c.chunk > 0
                or _per_thread(p, c) >= (16 // _size(p.x) if c.rows > 1 else 8 if c.num_worker_warps > 4 else 0)
            ),
        ),
        Rule(
            "a thread has more than 64 elements, or 128 of one row",
            lambda p, c, _: c.chunk > 0 or _per_thread(p, c) <= (64 if c.rows > 1 else 128),
        ),
        Rule(
            "occupancy: other than what leaves a thread of 64 elements and more twice as many registers",
            lambda p, c, _: not c.occupancy or c.chunk + c.tail > 0 or _registers(c) == 2 * _per_thread(p, c) >= 128,
        ),
    )
    return Space(
        name=name,
        config=Config,
        axes=(
            {
                "rows": (1, 2, 4, 8, 16, 32, 64, 128),
                "folded": (False, True),
                "occupancy": (0, 1, 2, 4),
                "num_worker_warps": (4, 8),
            },
            *({"tail": (16 << n,), "occupancy": (2, 3), "num_worker_warps": (4, 8)} for n in range(11 if pairs else 0)),
            {"chunk": (4096, 8192), "occupancy": (2, 4), "num_worker_warps": (8,)},
        ),
        rules=rules,
        default=lambda problem, machine: row_default(problem, machine, middle, pairs),
        launch=launch,
        bucket=row_bucket,
        work=row_work,
        on_first_call=False,
    )


def layer_norm_middle(block: int, rows: int) -> Config:
    """Return what was fastest for a layer norm's rows of 1024 to 8192 columns."""
    if block == 1024:
        return Config(8, True, num_worker_warps=4)
    if block == 4096:
        return Config(2 if rows < 8192 else 4, num_worker_warps=8)
    return Config(2 if block == 2048 else 1, num_worker_warps=4)


def row_bucket(problem: RowProblem) -> dict[str, Value]:
    """Return what a choice depends on."""
    x = problem.x
    return {
        "dtype": dtype_name(x.dtype),
        "weight": dtype_name(problem.weight.dtype),
        "rows": extent_bucket(x.shape[0]),
        "block": row_block(x),
        "load": load_width(x),
    }


def row_work(problem: RowProblem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: every element is read and written; in chunks it is read twice."""
    rows, columns = problem.x.shape
    size = _size(problem.x)
    width = config.chunk or row_block(problem.x)
    return Work(
        tiles=ceil_div(rows, config.rows),
        steps=2 * ceil_div(columns, width) if config.chunk else 1,
        step_bytes=config.rows * width * size,
        tile_bytes=config.rows * columns * size,
        step_ops=8.0 * config.rows * width,
        least_bytes=2 * rows * columns * size,
    )


def _per_thread(problem: RowProblem, config: Config) -> float:
    return config.rows * row_block(problem.x) / (32 * (config.num_worker_warps or 4))


def _registers(config: Config) -> int:
    """Return what a thread of a multiprocessor with 65536 registers has at the configuration's occupancy."""
    return 65536 // (32 * (config.num_worker_warps or 4) * config.occupancy)


def _fits_32_bits(x: TensorMeta, rows: int) -> bool:
    return rows == 1 or rows * x.strides[0] < 2**31


def _size(meta: TensorMeta) -> int:
    return meta.dtype.itemsize
