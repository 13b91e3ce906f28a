# SPDX-License-Identifier: MIT
"""What can be chosen of mhc_sinkhorn: rows of a tile and warps. The kernel is in `rust/src/ops/mhc_sinkhorn.rs`."""

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

ROUNDS = 20
LARGEST = 32
"""The largest n: a tile of fewer blocks than lanes would not help its registers."""


@dataclass(frozen=True)
class Config:
    """Rows, that is blocks, of a tile; hints."""

    rows: int
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """The n x n blocks in columns 2 n to 2 n + n * n of `y`."""

    y: TensorMeta
    n: int


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    rows = problem.y.shape[0]
    constants = {
        "N": problem.n,
        "BLOCK": problem.n**2,
        "ROWS": config.rows,
        "ROUNDS": ROUNDS,
        "EXACT": int(rows % config.rows == 0),
    }
    grid = (ceil_div(rows, config.rows), 1, 1)
    return Launch(kernels.mhc_sinkhorn, grid, {"y": problem.y}, {**constants, **hints(config)})


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: a block is read and written once; each round divides it twice."""
    tile = config.rows * problem.n**2
    return Work(
        tiles=ceil_div(problem.y.shape[0], config.rows),
        steps=ROUNDS,
        step_bytes=0,
        tile_bytes=2 * tile * problem.y.dtype.itemsize,
        step_ops=4.0 * tile + 16.0 * config.rows * problem.n,
        least_bytes=2 * problem.y.shape[0] * problem.n**2 * problem.y.dtype.itemsize,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    return {"dtype": dtype_name(problem.y.dtype), "n": problem.n, "rows": extent_bucket(problem.y.shape[0])}


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration: four elements to each thread, eight where a sum takes more shuffles."""
    return Config(max((512 if problem.n <= 4 else 1024) // problem.n**2, 1), num_worker_warps=4)


SPACE: Space[Problem, Config] = Space(
    name="mhc_sinkhorn",
    config=Config,
    axes={"rows": (1, 2, 4, 8, 16, 32, 64, 128), "num_worker_warps": (4, 8)},
    rules=(
        Rule(
            "a thread has more than 16 elements, or less than 4",
            lambda p, c, _: 4 <= c.rows * p.n**2 / (32 * (c.num_worker_warps or 4)) <= 16,
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    in_place=("y",),
    on_first_call=False,
)
