# SPDX-License-Identifier: MIT
"""What can be chosen of matmul: schedule, tiles, hints. Kernels in `rust/src/ops/matmul.rs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

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
from ._common import contiguous_meta
from ._common import mma_type
from ._common import next_power_of_2


@dataclass(frozen=True)
class Config:
    """Tile extents along M, N and K, rows of tiles that share a column sweep, schedule, load latency, hints.

    ``persistent``: as many blocks as fit walk over the tiles; ``latency`` is then what a load shall be taken to cost
    (1 to 10), which sets how far ahead loads are issued.
    """

    bm: int
    bn: int
    bk: int
    group: int = 8
    persistent: bool = False
    latency: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0
    num_cta_in_cga: int = 0


class Operand(NamedTuple):
    """A stored matrix and whether it is read transposed."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool
    transposed: bool

    def meta(self, dtype: torch.dtype) -> TensorMeta:
        """Return the tensor's metadata."""
        return TensorMeta(tuple(self.shape), tuple(self.strides), dtype, self.aligned)

    def bulk(self, itemsize: int) -> bool:
        """Whether the copy engine can load its tiles: unit last stride, rows and address on 16 bytes."""
        return self.aligned and self.strides[1] == 1 and self.strides[0] * itemsize % 16 == 0


class Problem(NamedTuple):
    """op(a) @ op(b) with the product's extents M, N, K; both operands have `dtype`."""

    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    dtype: torch.dtype


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration; parameters are named as in the kernels."""
    tiles = _tiles(problem, config)
    constants = {"BM": config.bm, "BN": config.bn, "BK": config.bk, "GROUP": config.group}
    single = problem.dtype == torch.float32
    if config.persistent:
        kernel = kernels.matmul_persistent_tf32 if single else kernels.matmul_persistent
        blocks = min(tiles, machine.sm_count * max(config.occupancy, 1))
        constants["LATENCY"] = config.latency
    else:
        kernel = kernels.matmul_tile_tf32 if single else kernels.matmul_tile
        blocks = tiles
    return Launch(
        kernel,
        (blocks, 1, 1),
        {
            "c": contiguous_meta((problem.m, problem.n), problem.dtype),
            "a": problem.a.meta(problem.dtype),
            "b": problem.b.meta(problem.dtype),
        },
        {
            **constants,
            "TRANS_A": int(problem.a.transposed),
            "TRANS_B": int(problem.b.transposed),
            **hints(config),
        },
    )


TRANSPOSING_OPS = 24.0
"""What an fp8 element costs that does not lie along K in memory: tensor cores want it there, threads move it."""


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: per step a (bm, bk) and a (bk, bn) tile are loaded and multiplied."""
    m, n, k, size = problem.m, problem.n, problem.k, problem.dtype.itemsize
    turned = (config.bm * problem.a.transposed + config.bn * (not problem.b.transposed)) * (size == 1)
    return Work(
        tiles=_tiles(problem, config),
        steps=ceil_div(k, config.bk),
        step_bytes=(config.bm + config.bn) * config.bk * size,
        step_ops=TRANSPOSING_OPS * turned * config.bk,
        tile_bytes=config.bm * config.bn * size,
        least_bytes=(m * k + k * n + m * n) * size,
        mma=((config.bm, config.bn, config.bk),),
        mma_type=mma_type(problem.dtype),
        persistent=config.persistent,
        stages=config.latency,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    size = problem.dtype.itemsize
    return {
        "dtype": dtype_name(problem.dtype),
        "m": extent_bucket(problem.m),
        "n": extent_bucket(problem.n),
        "k": extent_bucket(problem.k),
        "trans_a": problem.a.transposed,
        "trans_b": problem.b.transposed,
        "bulk": problem.a.bulk(size) and problem.b.bulk(size),
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration: of the architecture's table the one that is through first.

    The multiprocessor with the most tiles decides, so a smaller tile wins where the last wave of large ones would be
    nearly empty.
    """
    rows = DEFAULTS[machine.family][{4: "f32", 2: "half", 1: "fp8"}[problem.dtype.itemsize]]

    def blocks(config: Config) -> int:
        return ceil_div(_tiles(problem, config) * max(config.num_cta_in_cga, 1), machine.sm_count)

    def clocks(row: Row) -> float:
        elements = row.config.bm * row.config.bn / max(row.config.num_cta_in_cga, 1)
        return row.cost * blocks(row.config) * elements

    fit = [row for row in rows if not row.once or blocks(row.config) <= max(row.config.occupancy, 1)]
    return min(fit, key=clocks).config


def _tiles(problem: Problem, config: Config) -> int:
    return ceil_div(problem.m, config.bm) * ceil_div(problem.n, config.bn)


class Row(NamedTuple):
    """A shipped configuration.

    Attributes:
        config: the configuration.
        cost: time of an element of its tile, as a multiple of the table's fastest.
        once: only where all tiles are resident at once, for which its cost holds.
    """

    config: Config
    cost: float = 1.0
    once: bool = False


# sm_90 as measured on an H200 (docs/results); the others compile without spills and are not measured.
DEFAULTS: dict[str, dict[str, tuple[Row, ...]]] = {
    "sm_80": {
        "f32": (
            Row(Config(128, 128, 32, occupancy=1, num_worker_warps=8)),
            Row(Config(64, 64, 32, occupancy=2, num_worker_warps=4), 1.5),
        ),
        "half": (
            Row(Config(128, 128, 32, occupancy=2, num_worker_warps=4)),
            Row(Config(64, 64, 64, occupancy=2, num_worker_warps=4), 1.5),
        ),
        "fp8": (Row(Config(64, 64, 64, occupancy=2, num_worker_warps=4)),),
    },
    "sm_90": {
        "f32": (
            Row(Config(128, 256, 32, occupancy=1, num_worker_warps=8)),
            Row(Config(64, 128, 32, occupancy=1, num_worker_warps=4), 1.5),
        ),
        "half": (
            Row(Config(128, 256, 64, group=16, persistent=True, latency=6, occupancy=1, num_worker_warps=8)),
            Row(Config(128, 128, 64, persistent=True, latency=6, occupancy=1, num_worker_warps=4), 1.03),
            Row(Config(128, 128, 64, occupancy=2, num_worker_warps=4), 0.96, once=True),
            Row(Config(128, 128, 64, occupancy=1, num_worker_warps=4), 0.84, once=True),
            Row(Config(64, 128, 64, occupancy=1, num_worker_warps=4), 1.65),
            Row(Config(64, 64, 128, occupancy=2, num_worker_warps=4), 1.84),
            Row(Config(64, 64, 64, num_worker_warps=4), 1.8, once=True),
        ),
        # Tiles are tall: what is not stored along K is transposed by the threads, here the columns' operand.
        "fp8": (
            Row(Config(256, 64, 128, occupancy=1, num_worker_warps=8)),
            Row(Config(128, 128, 128, occupancy=1, num_worker_warps=8), 1.16),
            Row(Config(64, 64, 128, occupancy=2, num_worker_warps=4), 1.7),
        ),
    },
    "sm_100": {
        "f32": (Row(Config(128, 128, 32)), Row(Config(64, 64, 32), 1.5)),
        "half": (
            Row(Config(256, 256, 64, num_cta_in_cga=2, occupancy=1)),
            Row(Config(128, 128, 64), 1.2),
            Row(Config(64, 64, 64), 1.8),
        ),
        "fp8": (Row(Config(128, 128, 128)), Row(Config(64, 64, 128), 1.5)),
    },
    "sm_120": {
        "f32": (Row(Config(128, 64, 32, occupancy=1)), Row(Config(64, 64, 32), 1.3)),
        "half": (Row(Config(128, 64, 64, occupancy=1)), Row(Config(64, 64, 64, occupancy=2), 1.3)),
        "fp8": (Row(Config(128, 64, 64, occupancy=1)), Row(Config(64, 64, 64), 1.3)),
    },
}

_TILES = {"bm": (16, 32, 64, 128, 256), "bn": (16, 32, 64, 128, 256), "bk": (32, 64, 128)}
_HINTS = {"occupancy": (1, 2), "num_worker_warps": (4, 8), "num_cta_in_cga": (0, 2)}

SPACE: Space[Problem, Config] = Space(
    name="matmul",
    config=Config,
    axes=(
        {**_TILES, **_HINTS},
        {**_TILES, **_HINTS, "group": (8, 16), "persistent": (True,), "latency": (2, 4, 6)},
    ),
    rules=(
        Rule("bm: a smaller tile covers all rows", lambda p, c, _: c.bm <= max(next_power_of_2(p.m), 16)),
        Rule("bn: a smaller tile covers all columns", lambda p, c, _: c.bn <= max(next_power_of_2(p.n), 16)),
        Rule("bk: a smaller tile covers all of K", lambda p, c, _: c.bk <= max(next_power_of_2(p.k), 32)),
        Rule("bm: too few rows for the tensor cores", lambda p, c, _: c.bm >= min(64, next_power_of_2(p.m))),
        Rule("bn: too few columns for the tensor cores", lambda p, c, _: c.bn >= min(64, next_power_of_2(p.n))),
        Rule(
            "bk: a row of a tile is shorter than 64 bytes or longer than 256",
            lambda p, c, _: 64 <= c.bk * p.dtype.itemsize <= 256,
        ),
        Rule(
            "accumulators: more than 128 registers of each thread",
            lambda p, c, _: c.bm * c.bn <= 128 * 32 * (c.num_worker_warps or 4) * max(c.num_cta_in_cga, 1),
        ),
        Rule(
            "accumulators: those of the blocks asked for do not fit the registers",
            lambda p, c, x: c.bm * c.bn * max(c.occupancy, 1) <= 0.5 * x.registers * max(c.num_cta_in_cga, 1),
        ),
        Rule(
            "accumulators: fewer than 16 registers of each thread",
            lambda p, c, _: c.num_worker_warps <= 4 or c.bm * c.bn >= 16 * 32 * c.num_worker_warps,
        ),
        Rule(
            "shared memory: two stages of both operands do not fit",
            lambda p, c, x: 2 * (c.bm + c.bn) * c.bk * p.dtype.itemsize * max(c.occupancy, 1) <= x.shared_bytes,
        ),
        Rule(
            "num_cta_in_cga: two gain nothing but on data-centre Blackwell, with enough tiles",
            lambda p, c, x: c.num_cta_in_cga < 2 or (x.family == "sm_100" and _tiles(p, c) >= x.sm_count),
        ),
        Rule(
            "persistent: no more tiles than blocks",
            lambda p, c, x: not c.persistent or _tiles(p, c) > x.sm_count * max(c.occupancy, 1),
        ),
        Rule("persistent: without clusters", lambda p, c, _: not c.persistent or c.num_cta_in_cga < 2),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    fine=("group", "latency"),
)
