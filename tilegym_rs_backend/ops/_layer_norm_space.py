# SPDX-License-Identifier: MIT
"""What can be chosen of a layer norm over a middle axis. Kernels in `rust/src/ops/layer_norm.rs`."""

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

LARGEST_TILE = 32768
"""Elements of the largest tile that registers hold."""


@dataclass(frozen=True)
class Config:
    """Columns of a strip, hints; with ``depth``: how much of the normalised axis is read at a time, twice.

    ``load``: elements of a load at most. The fewer, the more threads share a strip and the more of the depth each has.
    """

    strip: int
    depth: int = 0
    load: int = 8
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """`x`, seen as the contiguous `shape` (groups, depth, behind), normalised over depth.

    The metadata are those of (groups * depth, behind), whose strides stay small; `shift` is added to the weight.
    """

    shape: tuple[int, int, int]
    x: TensorMeta
    weight: TensorMeta
    bias: TensorMeta
    eps: float
    shift: float


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    x = problem.x
    groups, depth, behind = problem.shape
    args: dict[str, TensorMeta | int | float | bool] = {
        "out": TensorMeta(x.shape, x.strides, x.dtype, True),
        "x": x,
        "weight": problem.weight,
        "bias": problem.bias,
        "depth": depth,
        "behind": behind,
        "share": 1.0 / depth,
        "eps": problem.eps,
        "shift": problem.shift,
    }
    constants = {
        "DEPTH": config.depth or next_power_of_2(depth),
        "BLOCK": config.strip,
        "ALIGN": min(elements_per_load(behind, x.dtype.itemsize), config.load),
    }
    kernel = kernels.layer_norm_deep
    if not config.depth:
        kernel = kernels.layer_norm_strips
        constants["EXACT"] = int(depth == constants["DEPTH"] and behind % config.strip == 0)
    return Launch(kernel, (groups * ceil_div(behind, config.strip), 1, 1), args, {**constants, **hints(config)})


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration, as far as measured on an H200 (docs/results).

    A depth of up to 32 is a thread's own where the loads are narrow enough, so that sums need no other thread; with 8
    columns each, the partial sums of 16 threads took longer than memory. Deeper tiles are as wide as registers allow.
    """
    groups, depth, behind = problem.shape
    whole, widest = next_power_of_2(depth), next_power_of_2(behind)
    size = problem.x.dtype.itemsize
    load = min(16 // size, 64 // whole) if whole <= 32 and size == 2 else 4
    strip = min(widest, 128 * load if size == 2 else 256) if whole <= 32 else min(widest, 128 // size)
    while strip > 16 and (strip * whole > LARGEST_TILE // 2 or groups * ceil_div(behind, strip) < 2 * machine.sm_count):
        strip //= 2
    tile = strip * whole
    if tile <= LARGEST_TILE and whole * behind < 2**31:
        warps = 8 if tile > 8192 else 4
        return Config(strip, load=load, occupancy=2 if tile == 16384 else 0, num_worker_warps=warps)
    strip = min(widest, 64)
    step = 4096 // strip
    while step > 1 and step * behind >= 2**31:
        step //= 2
    return Config(strip, step, load=4, occupancy=2, num_worker_warps=8)


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    groups, depth, behind = problem.shape
    return {
        "dtype": dtype_name(problem.x.dtype),
        "weight": dtype_name(problem.weight.dtype),
        "groups": extent_bucket(groups),
        "depth": next_power_of_2(depth),
        "behind": extent_bucket(behind),
        "load": elements_per_load(behind, problem.x.dtype.itemsize),
    }


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: every element is read and written; in pieces of the depth it is read twice."""
    groups, depth, behind = problem.shape
    size = problem.x.dtype.itemsize
    tile = config.strip * (config.depth or next_power_of_2(depth))
    return Work(
        tiles=groups * ceil_div(behind, config.strip),
        steps=2 * ceil_div(depth, config.depth) if config.depth else 1,
        step_bytes=tile * size,
        tile_bytes=config.strip * depth * size,
        step_ops=8.0 * tile,
        least_bytes=2 * groups * depth * behind * size,
    )


def _tile(problem: Problem, config: Config) -> int:
    return config.strip * (config.depth or next_power_of_2(problem.shape[1]))


def _per_thread(problem: Problem, config: Config) -> float:
    return _tile(problem, config) / (32 * (config.num_worker_warps or 4))


SPACE: Space[Problem, Config] = Space(
    name="layer_norm",
    config=Config,
    axes=(
        {
            "strip": (16, 32, 64, 128, 256, 512),
            "load": (1, 2, 4, 8),
            "occupancy": (0, 2),
            "num_worker_warps": (4, 8),
        },
        {
            "strip": (32, 64, 128),
            "depth": (32, 64, 128),
            "load": (4,),
            "occupancy": (2,),
            "num_worker_warps": (8,),
        },
    ),
    rules=(
        Rule("strip: a smaller one covers what is behind", lambda p, c, _: c.strip <= next_power_of_2(p.shape[2])),
        Rule("a tile has more than 32768 elements", lambda p, c, _: _tile(p, c) <= LARGEST_TILE),
        Rule(
            "a tile's elements are not numbered by 32 bits",
            lambda p, c, _: (c.depth or next_power_of_2(p.shape[1])) * p.shape[2] < 2**31,
        ),
        Rule("depth: the axis fits one tile", lambda p, c, _: not c.depth or 32 * p.shape[1] > LARGEST_TILE),
        Rule("load: wider than 16 bytes", lambda p, c, _: c.load <= 16 // p.x.dtype.itemsize),
        Rule(
            "load: narrow, and the depth is not each thread's own",
            lambda p, c, _: c.load >= 4 or c.strip == 32 * c.num_worker_warps * c.load,
        ),
        Rule("a thread has less than 16 or more than 128 elements", lambda p, c, _: 16 <= _per_thread(p, c) <= 128),
        Rule(
            "occupancy: 2 blocks of 8 warps with 64 elements a thread, else the compiler's choice",
            lambda p, c, _: (
                c.depth > 0 or c.occupancy == (2 if (c.num_worker_warps, _per_thread(p, c)) == (8, 64) else 0)
            ),
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
