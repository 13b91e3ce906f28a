# SPDX-License-Identifier: MIT
"""What can be chosen of fmha: tiles, load latencies, hints. Kernels in `rust/src/ops/fmha.rs`."""

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

L2_SHARE = 6 << 20
"""Bytes of keys and values that the heads of a causal launch in flight may fill: an eighth of Hopper's L2 cache.

Measured with 1 to 64 heads at once over 1024 to 8192 keys: the fastest number of heads held 2 to 8 MiB.
"""


@dataclass(frozen=True)
class Config:
    """Tile extents along queries and keys, latencies that loads of k and v shall be taken to have (1 to 10), hints."""

    bm: int
    bn: int
    k_latency: int = 1
    v_latency: int = 1
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """q (B, H, S, D) over k and v (B, H_kv, S_kv, D) of one dtype; `scale` in units of log2 e."""

    q: TensorMeta
    k: TensorMeta
    v: TensorMeta
    scale: float
    causal: bool

    @property
    def dtype(self) -> torch.dtype:
        """Of all three."""
        return self.q.dtype

    @property
    def heads(self) -> int:
        """B * H."""
        return self.q.shape[0] * self.q.shape[1]

    @property
    def queries(self) -> int:
        """S."""
        return self.q.shape[2]

    @property
    def keys(self) -> int:
        """S_kv."""
        return self.k.shape[2]

    @property
    def width(self) -> int:
        """Head size as the kernel's tiles hold it."""
        return max(next_power_of_2(self.q.shape[3]), 16)

    @property
    def visible(self) -> float:
        """Average number of keys that a query sees."""
        return max(self.keys - (self.queries - 1) / 2, 1.0) if self.causal else float(self.keys)


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration; parameters are named as in the kernel."""
    return Launch(
        kernels.fmha_forward,
        (ceil_div(problem.queries, config.bm) * problem.heads, 1, 1),
        {
            "out": contiguous_meta(problem.q.shape, problem.dtype),
            "q": problem.q,
            "k": problem.k,
            "v": problem.v,
            "scale": problem.scale,
            "group": heads_at_once(problem),
        },
        {
            "BM": config.bm,
            "BN": config.bn,
            "BD": problem.width,
            "K_LATENCY": config.k_latency,
            "V_LATENCY": config.v_latency,
            "CAUSAL": int(problem.causal),
            **hints(config),
        },
    )


def heads_at_once(problem: Problem) -> int:
    """Return how many heads' blocks run side by side: causal, a power of two within `L2_SHARE`; else one.

    Without a mask all blocks take equally long, and one head after the other shares the most.
    """
    if not problem.causal:
        return 1
    head_bytes = 2 * problem.keys * problem.width * problem.dtype.itemsize
    sharing = problem.q.shape[1] // problem.k.shape[1]
    count = max(1, L2_SHARE // head_bytes) * sharing
    return 1 << min(count.bit_length() - 1, (problem.heads - 1).bit_length())


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does: per step a tile of k and one of v, two products, and the softmax of the scores."""
    size, width = problem.dtype.itemsize, problem.width
    steps = problem.visible / config.bn + (0.5 if problem.causal else 0.0)  # half a tile is masked
    kv_bytes = 2 * problem.heads * problem.k.shape[1] // problem.q.shape[1] * problem.keys * width * size
    return Work(
        tiles=ceil_div(problem.queries, config.bm) * problem.heads,
        steps=steps,
        step_bytes=2 * config.bn * width * size,
        tile_bytes=2 * config.bm * width * size,
        least_bytes=kv_bytes + 2 * problem.heads * problem.queries * width * size,
        mma=((config.bm, config.bn, width), (config.bm, width, config.bn)),
        mma_type=mma_type(problem.dtype),
        step_ops=config.bm * config.bn * 12.0 + config.bm * width,  # max, fma, exp2 (8), sum, conversion; rescaling
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    return {
        "dtype": dtype_name(problem.dtype),
        "heads": extent_bucket(problem.heads),
        "queries": extent_bucket(problem.queries),
        "keys": extent_bucket(problem.keys),
        "width": problem.width,
        "causal": problem.causal,
    }


_PAIR = Config(64, 128, occupancy=2, num_worker_warps=4)
"""Two blocks per multiprocessor: the softmax of one runs beside the products of the other."""


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration. sm_90 as measured on an H200 (docs/results), the others compile unspilled."""
    if problem.width > 128:
        small = Config(64, 32, num_worker_warps=4)
        return {"sm_90": Config(128, 128, num_worker_warps=8), "sm_100": Config(128, 64)}.get(machine.family, small)
    if machine.family == "sm_90":
        long = 8192 if problem.causal else 4096
        if problem.dtype.itemsize == 2 and problem.width == 128 and min(problem.keys, problem.queries) >= long:
            return Config(128, 256, 2, 4, num_worker_warps=8)
        return _PAIR
    return {"sm_100": Config(128, 128, 2, 4), "sm_80": Config(64, 64, num_worker_warps=4)}.get(
        machine.family, Config(64, 64, occupancy=2)
    )


SPACE: Space[Problem, Config] = Space(
    name="fmha",
    config=Config,
    axes=(
        {"bm": (64, 128, 256), "bn": (32, 64, 128, 256), "occupancy": (1, 2), "num_worker_warps": (4, 8)},
        {
            "bm": (64, 128),
            "bn": (64, 128, 256),
            "k_latency": (2,),
            "v_latency": (4,),
            "occupancy": (1, 2),
            "num_worker_warps": (4, 8),
        },
    ),
    rules=(
        Rule("bm: a smaller tile covers all queries", lambda p, c, _: c.bm <= max(next_power_of_2(p.queries), 64)),
        Rule("bn: a smaller tile covers all keys", lambda p, c, _: c.bn <= max(next_power_of_2(p.keys), 32)),
        Rule(
            "accumulators: scores and result take more than 192 registers of each thread",
            # Data-centre Blackwell keeps them in tensor memory.
            lambda p, c, x: x.family == "sm_100" or c.bm * (c.bn + p.width) <= 192 * 32 * (c.num_worker_warps or 4),
        ),
        Rule(
            "accumulators: fewer than 64 registers of each thread",
            lambda p, c, _: c.num_worker_warps <= 4 or c.bm * (c.bn + p.width) >= 64 * 32 * c.num_worker_warps,
        ),
        Rule(
            "shared memory: q and one tile each of k and v do not fit",
            lambda p, c, x: (c.bm + 2 * c.bn) * p.width * p.dtype.itemsize * max(c.occupancy, 1) <= x.shared_bytes,
        ),
        Rule(
            "occupancy: two blocks of eight warps have 128 registers a thread, too few",
            lambda p, c, _: c.occupancy * c.num_worker_warps <= 8,
        ),
    ),
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
)
