# SPDX-License-Identifier: MIT
"""What can be chosen of splitk_reduce: columns of a tile, splits at a time. Kernel: `rust/src/ops/splitk_reduce.rs`."""

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

MOST_AT_ONCE = 64
"""Splits that are taken at once by default; more go in chunks."""


@dataclass(frozen=True)
class Config:
    """Tiles of `chunk` splits (0: all) by `block` columns; hints."""

    block: int
    chunk: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """`out` (B, H, D) of `partials` (B, H, splits, D) and `lse` (B, H, splits)."""

    out: TensorMeta
    partials: TensorMeta
    lse: TensorMeta

    @property
    def splits(self) -> int:
        """Splits of a tile that holds them all."""
        return next_power_of_2(self.partials.shape[2])


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    batches, heads, splits, width = problem.partials.shape
    args: dict[str, TensorMeta | int | float | bool] = {
        "out": problem.out,
        "partials": problem.partials,
        "lse": problem.lse,
    }
    grid = (batches, heads, ceil_div(width, config.block))
    chunk = min(config.chunk or problem.splits, problem.splits)
    constants = {
        "SPLITS": problem.splits,
        "CHUNK": chunk,
        "BLOCK": config.block,
        "ONCE": int(chunk == problem.splits),
        "UNIT": int(problem.out.strides[-1] == problem.partials.strides[-1] == 1),
        "EXACT": int(splits == problem.splits == chunk and width % config.block == 0),
    }
    return Launch(kernels.splitk_reduce, grid, args, {**constants, **hints(config)})


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: partials are read once."""
    batches, heads, splits, width = problem.partials.shape
    size = problem.partials.dtype.itemsize
    chunk = min(config.chunk or problem.splits, problem.splits)
    return Work(
        tiles=batches * heads * ceil_div(width, config.block),
        steps=problem.splits / chunk,
        step_bytes=chunk * config.block * size,
        tile_bytes=config.block * problem.out.dtype.itemsize,
        step_ops=4.0 * chunk * config.block,
        least_bytes=batches * heads * width * (splits * size + problem.out.dtype.itemsize),
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    batches, heads, _, width = problem.partials.shape
    return {
        "dtype": dtype_name(problem.partials.dtype),
        "result": dtype_name(problem.out.dtype),
        "rows": extent_bucket(batches * heads),
        "splits": problem.splits,
        "width": extent_bucket(width),
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration, as measured on an H200 (docs/results)."""
    width = max(next_power_of_2(problem.partials.shape[3]), 32)
    block = {1: 256, 2: 256, 4: 128, 8: 32}.get(problem.splits, 128)
    chunk = MOST_AT_ONCE if problem.splits > MOST_AT_ONCE else 0
    return Config(min(block, width), chunk, num_worker_warps=4)


SPACE: Space[Problem, Config] = Space(
    name="splitk_reduce",
    config=Config,
    axes={"block": (32, 64, 128, 256), "chunk": (0, 16, 64), "num_worker_warps": (4,)},
    rules=(
        Rule("chunk: all splits fit it", lambda p, c, _: c.chunk < p.splits),
        Rule(
            "block: a smaller tile covers the columns",
            lambda p, c, _: c.block <= max(next_power_of_2(p.partials.shape[3]), 32),
        ),
        Rule(
            "a thread has more than 64 elements",
            lambda p, c, _: min(c.chunk or p.splits, p.splits) * c.block <= 64 * 128,
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
