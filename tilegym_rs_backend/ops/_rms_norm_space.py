# SPDX-License-Identifier: MIT
"""What can be chosen of rms_norm and its backward. Kernels in `rust/src/ops/rms_norm.rs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..launch import kernels
from ..tensors import TensorMeta
from ..tuning.machine import Machine
from ..tuning.space import Launch
from ..tuning.space import Rule
from ..tuning.space import Space
from ..tuning.space import Work
from ..tuning.space import hints
from ._common import ceil_div
from ._common import contiguous_meta
from ._norms import Config
from ._norms import load_width
from ._norms import row_block
from ._norms import row_bucket
from ._norms import row_constants
from ._norms import row_grid
from ._norms import row_kernel
from ._norms import row_scalars
from ._norms import row_space
from ._norms import tile_constants
from ._norms import warp_span

LONGEST_BACKWARD_TILE = 16384
"""Bytes of the longest row of x that the backward holds in one tile, with dy, the weight and its gradient."""


class Problem(NamedTuple):
    """The rows of `x`, normalised; `keep`: with what their backward needs."""

    x: TensorMeta
    weight: TensorMeta
    eps: float
    offset: float
    keep: bool


class BackwardProblem(NamedTuple):
    """The gradients of `x` and `weight` from the result's, `dy`."""

    dy: TensorMeta
    x: TensorMeta
    weight: TensorMeta


@dataclass(frozen=True)
class BackwardConfig:
    """Rows of a tile of whole rows, hints; with ``strip``: columns of a strip of rows that do not fit one tile.

    ``folded``: each warp has rows of its own.
    There are `occupancy` blocks per multiprocessor, over the strips too.
    """

    rows: int
    folded: bool = False
    strip: int = 0
    occupancy: int = 1
    num_worker_warps: int = 0


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    x = problem.x
    args: dict[str, TensorMeta | int | float | bool] = {
        "out": contiguous_meta(x.shape, x.dtype),
        "x": x,
        "weight": problem.weight,
        "rstd": contiguous_meta((x.shape[0] if problem.keep else 0,), torch.float32),
        **row_scalars(x, config),
        "eps": problem.eps,
        "offset": problem.offset,
    }
    kernel = row_kernel(config, kernels.rms_norm_rows, kernels.rms_norm_long)
    return Launch(kernel, row_grid(x, config), args, {**row_constants(x, config), "KEEP": int(problem.keep)})


def middle(block: int, rows: int) -> Config:
    """Return what was fastest for rows of 1024 to 8192 columns."""
    if block == 1024:
        return Config(4 if rows < 16384 else 2, num_worker_warps=4)
    if block == 2048:
        return Config(num_worker_warps=4)
    if block == 4096:
        return Config(1 if rows < 16384 else 4, num_worker_warps=8)
    return Config(num_worker_warps=4) if rows < 32768 else Config(2, num_worker_warps=8)


def blocks(problem: BackwardProblem, config: BackwardConfig, machine: Machine) -> int:
    """Return how many partial sums of the weight's gradient a configuration makes."""
    rows, columns = problem.x.shape
    strips = ceil_div(columns, config.strip) if config.strip else 1
    return min(ceil_div(rows, config.rows), max(config.occupancy * machine.sm_count // strips, 1))


def backward_launch(problem: BackwardProblem, config: BackwardConfig, machine: Machine) -> Launch:
    """Return the launch that makes dx and the partial sums; it finds the rows' dot products where it goes by strips."""
    rows, columns = problem.x.shape
    parts = blocks(problem, config, machine)
    column = contiguous_meta((rows,), torch.float32)
    width = load_width(problem.x, problem.dy)
    args: dict[str, TensorMeta | int | float | bool] = {
        "dx": contiguous_meta(problem.x.shape, problem.x.dtype),
        "partial": contiguous_meta((parts, columns), torch.float32),
        **({"dots": column} if config.strip else {}),
        "dy": problem.dy,
        "x": problem.x,
        "weight": problem.weight,
        "rstd": column,
        "rows": rows,
        "columns": columns,
        "dy_pitch": problem.dy.strides[0],
        "x_pitch": problem.x.strides[0],
    }
    if config.strip:
        options = {"ROWS": config.rows, "BLOCK": config.strip, "ALIGN": width, **hints(config)}
        return Launch(kernels.rms_norm_backward_strips, (ceil_div(columns, config.strip), parts, 1), args, options)
    options = {**tile_constants(problem.x, config.rows, config.folded), "ALIGN": width, **hints(config)}
    return Launch(kernels.rms_norm_backward, (parts, 1, 1), {**args, "share": 1.0 / columns}, options)


def dots_launch(problem: BackwardProblem) -> Launch:
    """Return the launch that makes the dot products of rows that the backward goes through by strips."""
    rows, columns = problem.x.shape
    column = contiguous_meta((rows,), torch.float32)
    return Launch(
        kernels.rms_norm_backward_dots,
        (rows, 1, 1),
        {
            "dots": column,
            "dy": problem.dy,
            "x": problem.x,
            "weight": problem.weight,
            "rstd": column,
            "columns": columns,
            "dy_pitch": problem.dy.strides[0],
            "x_pitch": problem.x.strides[0],
            "share": 1.0 / columns,
        },
        {"BLOCK": 4096, "ALIGN": load_width(problem.x, problem.dy), "num_worker_warps": 8},
    )


def sum_launch(problem: BackwardProblem, parts: int) -> Launch:
    """Return the launch that adds the partial sums to the weight's gradient."""
    (columns,) = problem.weight.shape
    partial = contiguous_meta((parts, columns), torch.float32)
    return Launch(
        kernels.rms_norm_weight_gradient,
        (ceil_div(columns, 32), 1, 1),
        {
            "dw": contiguous_meta((columns,), problem.weight.dtype),
            "partial": partial,
            "blocks": parts,
            "columns": columns,
        },
        {"ROWS": 128, "BLOCK": 32, "ALIGN": load_width(partial), "num_worker_warps": 4},
    )


def backward_default(problem: BackwardProblem, machine: Machine) -> BackwardConfig:
    """Return the shipped configuration, as measured on an H200 (docs/results) for 2-byte elements."""
    block = row_block(problem.x)
    if not _fits_tile(problem):
        return BackwardConfig(4, strip=512, occupancy=4, num_worker_warps=4)
    if block > 1024:
        # With a mask 6 blocks of 2048 columns would spill.
        occupancy, warps = {2048: (6 if problem.x.shape[1] == block else 4, 4), 4096: (3, 8), 8192: (2, 4)}[block]
        return BackwardConfig(1, occupancy=occupancy, num_worker_warps=warps)
    rows = 4096 // block
    while rows > 1 and (
        ceil_div(problem.x.shape[0], rows) < 4 * machine.sm_count or _far(problem, BackwardConfig(rows))
    ):
        rows //= 2
    return BackwardConfig(rows, occupancy=3 if rows * block == 4096 else 4, num_worker_warps=4)


def backward_work(problem: BackwardProblem, config: BackwardConfig, machine: Machine) -> Work:
    """Return what a launch does: two tensors are read and one is written."""
    rows, columns = problem.x.shape
    size = problem.x.dtype.itemsize
    width = config.strip or row_block(problem.x)
    return Work(
        tiles=ceil_div(rows, config.rows) * ceil_div(columns, width),
        steps=1,
        step_bytes=2 * config.rows * width * size,
        tile_bytes=config.rows * min(width, columns) * size,
        step_ops=16.0 * config.rows * width,
        least_bytes=3 * rows * columns * size,
        persistent=True,
    )


def _per_thread(problem: BackwardProblem, config: BackwardConfig) -> float:
    return config.rows * (config.strip or row_block(problem.x)) / (32 * (config.num_worker_warps or 4))


def _fits_tile(problem: BackwardProblem) -> bool:
    return row_block(problem.x) * problem.x.dtype.itemsize <= LONGEST_BACKWARD_TILE


def _far(problem: BackwardProblem, config: BackwardConfig) -> bool:
    return config.rows > 1 and config.rows * max(problem.x.strides[0], problem.dy.strides[0]) >= 2**31


SPACE: Space[Problem, Config] = row_space("rms_norm", launch, middle)

BACKWARD: Space[BackwardProblem, BackwardConfig] = Space(
    name="rms_norm_backward",
    config=BackwardConfig,
    axes=(
        {
            "rows": (1, 2, 4, 8, 16, 32),
            "folded": (False, True),
            "occupancy": (2, 3, 4, 6),
            "num_worker_warps": (4, 8),
        },
        {"rows": (2, 4, 8), "strip": (256, 512, 1024), "occupancy": (4,), "num_worker_warps": (4,)},
    ),
    rules=(
        Rule(
            "a row fits one tile, or does not",
            lambda p, c, _: (c.strip > 0) != _fits_tile(p),
        ),
        Rule(
            "a thread has less than 8 or more than 32 elements, or 64 of one row",
            lambda p, c, _: 8 <= _per_thread(p, c) <= (32 if c.rows > 1 else 64),
        ),
        Rule(
            "folded: a warp has rows of its own, longer than its loads",
            lambda p, c, _: not c.folded or (c.rows >= c.num_worker_warps and row_block(p.x) > warp_span(p.x)),
        ),
        Rule(
            "rows: more than 4 that several warps share",
            lambda p, c, _: c.folded or c.strip > 0 or c.rows <= 4 or row_block(p.x) <= warp_span(p.x),
        ),
        Rule("rows: so far apart that 32 bits do not number a tile's elements", lambda p, c, _: not _far(p, c)),
        Rule("rows: few rows make few blocks", lambda p, c, m: c.rows == 1 or p.x.shape[0] >= c.rows * m.sm_count),
        Rule(
            "occupancy: a thread has less than 4 registers for each element, or more than 8",
            lambda p, c, _: (
                c.strip > 0 or 3.5 <= 65536 / (32 * c.num_worker_warps * c.occupancy * _per_thread(p, c)) <= 9
            ),
        ),
    ),
    default=backward_default,
    launch=backward_launch,
    bucket=row_bucket,
    work=backward_work,
    on_first_call=False,
)
