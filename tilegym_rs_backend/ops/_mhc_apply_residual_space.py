# SPDX-License-Identifier: MIT
"""What can be chosen of mhc_apply_residual: columns of a tile. Kernel in `rust/src/ops/mhc_apply_residual.rs`."""

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
from ._common import next_power_of_2


@dataclass(frozen=True)
class Config:
    """Columns of a tile, hints."""

    block: int
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """`out` and `x` (rows, n, C), `f` (rows, C), coefficients `y`; all contiguous."""

    out: TensorMeta
    x: TensorMeta
    f: TensorMeta
    y: TensorMeta


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    rows, n, width = problem.x.shape
    streams = next_power_of_2(n)
    args: dict[str, TensorMeta | int | float | bool] = {
        "out": problem.out,
        "x": problem.x,
        "f": problem.f,
        "y": problem.y,
    }
    exact = streams == n and width % config.block == 0
    grid = (rows, ceil_div(width, config.block), 1)
    constants = {
        "N": streams,
        "BLOCK": config.block,
        "FOUR": int(n >= 4),
        "EXACT": int(exact and (n % 4 == 0 or n < 4)),
    }
    return Launch(kernels.mhc_apply_residual, grid, args, {**constants, **hints(config)})


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: streams are read and written once."""
    rows, n, width = problem.x.shape
    size = problem.x.dtype.itemsize
    together = min(n, 4)
    return Work(
        tiles=rows * ceil_div(width, config.block),
        steps=ceil_div(n, together),
        step_bytes=together * config.block * size,
        tile_bytes=(n + 1) * config.block * size,
        step_ops=2.0 * together * n * config.block,
        least_bytes=rows * (2 * n + 1) * width * size,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    rows, n, width = problem.x.shape
    return {
        "dtype": dtype_name(problem.x.dtype),
        "coefficients": dtype_name(problem.y.dtype),
        "n": n,
        "rows": extent_bucket(rows),
        "width": extent_bucket(width),
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration: a vector of 16 bytes of each stream to a thread, while n of them fit.

    Measured on an H200 (docs/results).
    """
    _, n, width = problem.x.shape
    size = problem.x.dtype.itemsize
    columns = next_power_of_2(width)
    if n <= 8 and columns * size >= 4096:
        return Config(4096 // size, num_worker_warps=8)
    return Config(min(2048 // size, max(columns, 16), max(8192 // next_power_of_2(n), 16)), num_worker_warps=4)


SPACE: Space[Problem, Config] = Space(
    name="mhc_apply_residual",
    config=Config,
    axes=({"block": (128, 256, 512, 1024, 2048), "num_worker_warps": (4, 8)},),
    rules=(
        Rule(
            "block: a smaller tile covers the columns",
            lambda p, c, _: c.block <= max(next_power_of_2(p.x.shape[2]), 128),
        ),
        Rule(
            "a thread has more than 16 bytes of a stream, or more than 64 elements of all",
            lambda p, c, _: (
                8 <= c.block * p.x.dtype.itemsize / (32 * (c.num_worker_warps or 4)) <= 16
                and c.block * p.x.shape[1] <= 64 * 32 * (c.num_worker_warps or 4)
            ),
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
