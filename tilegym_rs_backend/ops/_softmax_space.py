# SPDX-License-Identifier: MIT
"""What can be chosen of softmax: kernel, rows of a tile, hints. Kernels in `rust/src/ops/softmax.rs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..launch import kernels
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
from ._common import without_gaps

LONGEST_TILE = 32768
"""Columns of the longest row held in one tile."""


@dataclass(frozen=True)
class Config:
    """Kernel, rows of a tile, columns of a chunk, loads, hints.

    ``variant``: ``"packed"``, masked loads of contiguous tensors, a tile per block; ``"rows"``, whole rows of any
    tensor, blocks striding over them; ``"long"``, rows in chunks of ``chunk`` columns. ``tma``: the last two load
    through the copy engine.
    """

    variant: str
    rows: int = 1
    chunk: int = 0
    tma: bool = False
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """softmax over the last axis of `x`, into `out`; both (rows, columns)."""

    out: TensorMeta
    x: TensorMeta

    @property
    def packed(self) -> bool:
        """Whether both tensors are contiguous."""
        return without_gaps(*self)

    @property
    def block(self) -> int:
        """Columns of a tile that holds a row."""
        return max(next_power_of_2(self.x.shape[1]), 16)


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    rows, columns = problem.x.shape
    args: dict[str, TensorMeta | int | float | bool] = {"out": problem.out, "x": problem.x}
    if config.variant == "packed":
        constants = {
            "ROWS": config.rows,
            "BLOCK": problem.block,
            "ALIGN": elements_per_load(columns, problem.x.dtype.itemsize),
            "EXACT": int(columns == problem.block and rows % config.rows == 0),
        }
        return Launch(kernels.softmax_packed, (ceil_div(rows, config.rows), 1, 1), args, {**constants, **hints(config)})
    if config.variant == "rows":
        constants = {"ROWS": config.rows, "BLOCK": problem.block, "TMA": int(config.tma)}
        blocks = min(ceil_div(rows, config.rows), max(config.occupancy, 1) * machine.sm_count)
        return Launch(kernels.softmax_rows, (blocks, 1, 1), args, {**constants, **hints(config)})
    constants = {"BLOCK": config.chunk, "TMA": int(config.tma)}
    return Launch(kernels.softmax_long, (rows, 1, 1), args, {**constants, **hints(config)})


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: every element is read, exponentiated and written; in chunks it is read twice."""
    rows, columns = problem.x.shape
    size = problem.x.dtype.itemsize
    long = config.variant == "long"
    width = config.chunk if long else problem.block
    return Work(
        tiles=ceil_div(rows, config.rows),
        steps=2 * ceil_div(columns, config.chunk) if long else 1,
        step_bytes=config.rows * width * size,
        tile_bytes=config.rows * columns * size,
        step_ops=12.0 * config.rows * width,
        least_bytes=2 * rows * columns * size,
        persistent=config.variant == "rows",
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    rows, columns = problem.x.shape
    return {
        "dtype": dtype_name(problem.x.dtype),
        "rows": extent_bucket(rows),
        "block": problem.block,
        "load": elements_per_load(columns, problem.x.dtype.itemsize),
        "packed": problem.packed,
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration.

    Measured on an H200, f16 (docs/results): for each length of row the fastest of some twenty, TMA, chunks and one
    tile per block among them. Other architectures have the same: what counts is bytes in flight.
    """
    block = problem.block
    if block > LONGEST_TILE or (not problem.packed and block > 16384):
        return Config("long", chunk=8192, occupancy=2, num_worker_warps=8)
    if not problem.packed:
        occupancy, warps = (8, 4) if block <= 4096 else (2, 8)
        return Config("rows", occupancy=occupancy, num_worker_warps=warps)
    if block > 16384 and problem.x.shape[1] < block:  # bf16 2048 x 20000: 64 us, in a tile of 32768 119
        return Config("long", chunk=2048, occupancy=4, num_worker_warps=8)
    rows = max(1, 2048 // block) if block <= 1024 else 1
    while rows > 1 and ceil_div(problem.x.shape[0], rows) < 2 * machine.sm_count:
        rows //= 2  # few rows: more blocks are worth more than full tiles
    size = block * problem.x.dtype.itemsize
    occupancy = 0 if size < 32768 else 2 if size < 65536 else 1
    return Config("packed", rows, occupancy=occupancy, num_worker_warps=8 if size >= 32768 else 4)


SPACE: Space[Problem, Config] = Space(
    name="softmax",
    config=Config,
    axes=(
        {
            "variant": ("packed",),
            "rows": (1, 2, 4, 8, 16, 32, 64, 128),
            "occupancy": (0, 1, 2, 4),
            "num_worker_warps": (4, 8),
        },
        {"variant": ("rows",), "tma": (False, True), "occupancy": (1, 2, 4, 8, 16), "num_worker_warps": (4, 8)},
        {
            "variant": ("long",),
            "chunk": (2048, 4096, 8192),
            "tma": (False, True),
            "occupancy": (1, 2, 4),
            "num_worker_warps": (4, 8),
        },
    ),
    rules=(
        Rule("packed: a tensor has gaps", lambda p, c, _: c.variant != "packed" or p.packed),
        Rule(
            "rows: a tile has more than 32768 elements", lambda p, c, _: c.rows == 1 or c.rows * p.block <= LONGEST_TILE
        ),
        Rule(
            "a thread has more than 128 elements",
            lambda p, c, _: c.rows * (c.chunk or p.block) <= 128 * 32 * (c.num_worker_warps or 4),
        ),
        Rule(
            "a thread has less than 16 bytes",
            lambda p, c, _: c.rows == 1 or c.rows * p.block * p.x.dtype.itemsize >= 512 * (c.num_worker_warps or 4),
        ),
        Rule("long: a row fits one tile", lambda p, c, _: c.variant != "long" or p.block > c.chunk),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
