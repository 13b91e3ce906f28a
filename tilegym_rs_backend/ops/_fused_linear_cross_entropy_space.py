# SPDX-License-Identifier: MIT
"""What can be chosen of a cross entropy's rows: columns of a chunk, lanes, warps.

Kernels in `rust/src/ops/fused_linear_cross_entropy.rs`.
"""

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
    """Chunks of `slices` times `block` columns, a running maximum per lane of `block`; hints."""

    slices: int
    block: int
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """`loss` (rows) of `logits` (rows, V), last stride 1, against `target` (rows); `ignored` targets cost nothing."""

    loss: TensorMeta
    logits: TensorMeta
    target: TensorMeta
    ignored: int


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    rows, width = problem.logits.shape
    args: dict[str, TensorMeta | int | float | bool] = {
        "loss": problem.loss,
        "logits": problem.logits,
        "target": problem.target,
        "ignored": problem.ignored,
    }
    constants = {
        "SLICES": config.slices,
        "BLOCK": config.block,
        "EXACT": int(width % (config.slices * config.block) == 0),
    }
    return Launch(kernels.cross_entropy_rows, (rows, 1, 1), args, {**constants, **hints(config)})


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: logits are read once, with an exponential each."""
    rows, width = problem.logits.shape
    chunk = config.slices * config.block
    return Work(
        tiles=rows,
        steps=ceil_div(width, chunk),
        step_bytes=chunk * problem.logits.dtype.itemsize,
        step_ops=12.0 * chunk + 20.0 * config.block,
        least_bytes=rows * width * problem.logits.dtype.itemsize,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    rows, width = problem.logits.shape
    return {"dtype": dtype_name(problem.logits.dtype), "rows": extent_bucket(rows), "width": extent_bucket(width)}


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration, as measured on an H200 (docs/results).

    A vector of 16 bytes to a thread and slice, four slices where there are. Eight blocks to a multiprocessor leave no
    registers to load ahead, but are faster where there are so many.
    """
    rows, width = problem.logits.shape
    lanes = 128 * 16 // problem.logits.dtype.itemsize
    if width <= lanes:
        return Config(1, max(next_power_of_2(width), 128), num_worker_warps=4)
    slices = min(next_power_of_2(width) // lanes, 4)
    return Config(slices, lanes, occupancy=8 if rows > 4 * machine.sm_count else 0, num_worker_warps=4)


SPACE: Space[Problem, Config] = Space(
    name="fused_linear_cross_entropy",
    config=Config,
    axes=(
        {"slices": (1, 2, 4, 8), "block": (512, 1024), "occupancy": (0, 8), "num_worker_warps": (4,)},
        {"slices": (2, 4), "block": (1024, 2048), "num_worker_warps": (8,)},
    ),
    rules=(
        Rule(
            "block: not a vector of 16 bytes to each thread",
            lambda p, c, _: c.block * p.logits.dtype.itemsize == 512 * (c.num_worker_warps or 4),
        ),
        Rule(
            "slices: fewer cover the columns",
            lambda p, c, _: c.slices == 1 or c.slices * c.block <= next_power_of_2(p.logits.shape[1]),
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
