# SPDX-License-Identifier: MIT
"""What can be chosen of transpose: the tile and its warps. The kernel is in `rust/src/ops/transpose.rs`."""

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

_LARGEST_GRID = 65535


@dataclass(frozen=True)
class Config:
    """Rows and columns of a tile of the input, hints; ``down``: blocks follow one another down its columns."""

    bm: int
    bn: int
    down: bool = False
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """`out` (N, M) of `x` (M, N)."""

    out: TensorMeta
    x: TensorMeta

    @property
    def straight(self) -> bool:
        """Whether x lies as its transpose is wanted."""
        return self.x.strides[0] == 1 and self.x.strides[1] != 1

    @property
    def unit(self) -> bool:
        """Whether the last strides are 1 (the input's first one, where it lies straight)."""
        return self.out.strides[1] == 1 and (self.straight or self.x.strides[1] == 1)


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    m, n = problem.x.shape
    tiles = (ceil_div(m, config.bm), ceil_div(n, config.bn))
    down = tiles[0] > _LARGEST_GRID or (config.down and tiles[1] <= _LARGEST_GRID)
    constants = {
        "BM": config.bm,
        "BN": config.bn,
        "DOWN": int(down),
        "UNIT": int(problem.unit),
        "STRAIGHT": int(problem.straight),
        "EXACT": int(m % config.bm == n % config.bn == 0),
    }
    grid = (*(tiles if down else tiles[::-1]), 1)
    return Launch(kernels.transpose_tiles, grid, {"out": problem.out, "x": problem.x}, {**constants, **hints(config)})


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: every element is read and written once."""
    m, n = problem.x.shape
    tile = config.bm * config.bn * problem.x.dtype.itemsize
    return Work(
        tiles=ceil_div(m, config.bm) * ceil_div(n, config.bn),
        steps=1,
        step_bytes=tile,
        tile_bytes=tile,
        step_ops=4.0 * config.bm * config.bn,
        least_bytes=2 * m * n * problem.x.dtype.itemsize,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    m, n = problem.x.shape
    return {
        "dtype": dtype_name(problem.x.dtype),
        "m": extent_bucket(m),
        "n": extent_bucket(n),
        "unit": problem.unit,
        "straight": problem.straight,
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration, as measured on an H200 (docs/results)."""
    m, n = (max(next_power_of_2(extent), 8) for extent in problem.x.shape)
    return Config(min(64, m), min(64, n), True, num_worker_warps=4 if problem.x.dtype.itemsize <= 2 else 8)


SPACE: Space[Problem, Config] = Space(
    name="transpose",
    config=Config,
    axes=(
        {"bm": (32, 64), "bn": (32, 64, 128), "num_worker_warps": (4, 8)},
        {"bm": (128,), "bn": (64, 128), "num_worker_warps": (8,)},
        {"bm": (32, 64), "bn": (64,), "down": (True,), "num_worker_warps": (4, 8)},
    ),
    rules=(
        Rule("bm: a smaller tile covers the rows", lambda p, c, _: c.bm <= max(next_power_of_2(p.x.shape[0]), 32)),
        Rule("bn: a smaller tile covers the columns", lambda p, c, _: c.bn <= max(next_power_of_2(p.x.shape[1]), 32)),
        Rule(
            "a thread has less than 16 or more than 64 bytes",
            lambda p, c, _: 16 <= c.bm * c.bn * p.x.dtype.itemsize / (32 * (c.num_worker_warps or 4)) <= 64,
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
