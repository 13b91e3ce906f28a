# SPDX-License-Identifier: MIT
"""What can be chosen of silu_and_mul and its backward: tiles and warps. Kernels in `rust/src/ops/silu_and_mul.rs`."""

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
from . import _gated
from ._common import ceil_div
from ._common import elements_per_load
from ._common import next_power_of_2
from ._common import without_gaps


@dataclass(frozen=True)
class Config:
    """Rows and columns of a tile, hints; ``packed``: masked loads of contiguous tensors, else views of any."""

    packed: bool
    rows: int
    cols: int
    num_cta_in_cga: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """`out` (rows, H) of `x`, seen as (rows, 2, H)."""

    out: TensorMeta
    x: TensorMeta

    @property
    def packed(self) -> bool:
        """Whether both tensors are contiguous."""
        return without_gaps(*self)


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    rows, hidden = problem.out.shape
    args: dict[str, TensorMeta | int | float | bool] = {"out": problem.out, "x": problem.x}
    if not config.packed:
        constants = {"ROWS": config.rows, "COLS": config.cols, "TMA": 0}
        tiles = ceil_div(rows, config.rows) * ceil_div(hidden, config.cols)
        return Launch(kernels.silu_and_mul_tile, _flat_grid(tiles), args, {**constants, **hints(config)})
    grid, constants = _gated.tiling(rows, hidden, config)
    constants["ALIGN"] = elements_per_load(hidden, problem.x.dtype.itemsize)
    return Launch(kernels.silu_and_mul_packed, grid, args, {**constants, **hints(config)})


def backward_launch(problem: _gated.Problem, config: _gated.Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration."""
    return _gated.launch_of(kernels.silu_and_mul_backward, problem, config)


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: both halves are read, and what is computed is written."""
    rows, _, hidden = problem.x.shape
    tile = config.rows * config.cols * problem.x.dtype.itemsize
    return Work(
        tiles=ceil_div(rows, config.rows) * ceil_div(hidden, config.cols),
        steps=1,
        step_bytes=2 * tile,
        tile_bytes=tile,
        step_ops=16.0 * config.rows * config.cols,
        least_bytes=3 * rows * hidden * problem.x.dtype.itemsize,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    rows, _, hidden = problem.x.shape
    return {
        "dtype": dtype_name(problem.x.dtype),
        "rows": extent_bucket(rows),
        "hidden": extent_bucket(hidden),
        "load": elements_per_load(hidden, problem.x.dtype.itemsize),
        "packed": problem.packed,
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration, as measured on an H200 (docs/results); the memory's limit, so for all."""
    rows, hidden = problem.out.shape
    block = max(next_power_of_2(hidden), 16)
    if not problem.packed:
        return Config(False, 1, min(block, 512), num_worker_warps=4)
    size = problem.x.dtype.itemsize
    many = 4 * machine.sm_count
    if block == 1024:
        return Config(True, 1, 1024, num_worker_warps=4 if size == 2 and rows >= many else 8)
    cols = min(block, 512)
    tile_rows = (2048 // size) // cols
    while tile_rows > 1 and ceil_div(rows, tile_rows) < many:
        tile_rows //= 2  # few rows: more blocks are worth more than full tiles
    return Config(True, tile_rows, cols, num_worker_warps=4)


def _flat_grid(tiles: int) -> tuple[int, int, int]:
    """Return a grid for the kernels that number their tiles and stride by the grid."""
    return (min(tiles, 2**31 - 1), 1, 1)


_COLS = (128, 256, 512, 1024, 2048)
_WARPS = (4, 8)
_TILE_RULES: tuple[Rule[Problem, Config], ...] = (
    Rule("cols: a smaller tile covers the row", lambda p, c, _: c.cols <= max(next_power_of_2(p.x.shape[2]), 16)),
    Rule(
        "a thread has less than 8 or more than 64 bytes of each operand",
        lambda p, c, _: 8 <= c.rows * c.cols * p.x.dtype.itemsize / (32 * (c.num_worker_warps or 4)) <= 64,
    ),
)

SPACE: Space[Problem, Config] = Space(
    name="silu_and_mul",
    config=Config,
    axes=(
        {"packed": (True,), "rows": (1, 2, 4, 8, 16, 32), "cols": (16, 32, 64, *_COLS), "num_worker_warps": _WARPS},
        {"packed": (False,), "rows": (1,), "cols": _COLS, "num_worker_warps": _WARPS},
    ),
    rules=(
        Rule("packed: a tensor has gaps", lambda p, c, _: p.packed or not c.packed),
        Rule("rows: more than one beside a tile that does not cover the row", lambda p, c, _: _covers(p, c)),
        *_TILE_RULES,
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)

BACKWARD = _gated.space("silu_and_mul_backward", backward_launch)


def _covers(problem: Problem, config: Config) -> bool:
    return config.rows == 1 or config.cols >= problem.x.shape[2]
