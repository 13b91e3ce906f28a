# SPDX-License-Identifier: MIT
"""What can be chosen of rotary embedding: rows and heads of a tile. Kernels in `rust/src/ops/apply_rope_base.rs`."""

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
from ._common import contiguous_meta
from ._common import next_power_of_2

LARGEST_GRID = 65535
"""Blocks along the second and the third axis of a grid."""


@dataclass(frozen=True)
class Config:
    """Rows of q's tile, heads of q among them (the others are positions), hints."""

    rows: int
    heads: int
    occupancy: int = 0
    num_worker_warps: int = 0


class Problem(NamedTuple):
    """q (B, H, S, D) and k (B, H_kv, S, D), rotated in place by tables (B, S, at least `half`)."""

    q: TensorMeta
    k: TensorMeta
    cos: TensorMeta
    sin: TensorMeta
    half: int


class BackwardProblem(NamedTuple):
    """The gradients of q and k from those of the results, as in `Problem`."""

    q: TensorMeta
    k: TensorMeta
    cos: TensorMeta
    sin: TensorMeta
    half: int


Either = Problem | BackwardProblem


def launch(problem: Problem, config: Config, machine: Machine) -> Launch:
    """Return the launch of a configuration."""
    args = {"q": problem.q, "k": problem.k, "cos": problem.cos, "sin": problem.sin}
    return _launch(kernels.rope_in_place, problem, config, args)


def backward_launch(problem: BackwardProblem, config: Config, machine: Machine) -> Launch:
    """Return the backward's launch of a configuration; what it writes is contiguous."""
    dq, dk = problem.q, problem.k
    args = {
        "grad_q": contiguous_meta(dq.shape, dq.dtype),
        "grad_k": contiguous_meta(dk.shape, dk.dtype),
        "dq": dq,
        "dk": dk,
        "cos": problem.cos,
        "sin": problem.sin,
    }
    return _launch(kernels.rope_backward, problem, config, args)


def _launch(kernel: str, problem: Either, config: Config, tensors: dict[str, TensorMeta]) -> Launch:
    batches, _, positions, _ = problem.q.shape
    tiles = ceil_div(positions, config.rows // config.heads)
    far = max(tiles, batches) > LARGEST_GRID
    head_tiles, k_heads = _heads(problem, config.heads)
    grid = (head_tiles, tiles, batches)
    if far:
        grid = (head_tiles, LARGEST_GRID, ceil_div(tiles * batches, LARGEST_GRID))
    block = next_power_of_2(problem.half)
    constants = {
        "ROWS": config.rows,
        "HEADS": config.heads,
        "K_ROWS": config.rows // config.heads * k_heads,
        "K_HEADS": k_heads,
        "BLOCK": block,
        "HALF": problem.half,
        "UNIT": int(all(meta.strides[-1] == 1 for meta in tensors.values())),
        "EXACT": int(_exact(problem, config.rows, config.heads) and not far),
        "FAR": int(far),
    }
    args: dict[str, TensorMeta | int | float | bool] = {**tensors}
    return Launch(kernel, grid, args, {**constants, **hints(config)})


def _heads(problem: Either, heads: int) -> tuple[int, int]:
    """Return the tiles that cover all heads with so many of q each, and how many of k, at most as many, go with it."""
    q_heads, k_heads = problem.q.shape[1], problem.k.shape[1]
    tiles = ceil_div(max(q_heads, k_heads), heads)
    return tiles, next_power_of_2(max(ceil_div(k_heads, tiles), 1))


def _exact(problem: Either, rows: int, heads: int) -> bool:
    """Whether no tile of so many rows and heads overhangs."""
    tiles, k_heads = _heads(problem, heads)
    whole = (tiles * heads, tiles * k_heads) == (problem.q.shape[1], problem.k.shape[1])
    return whole and problem.q.shape[2] % (rows // heads) == 0 and next_power_of_2(problem.half) == problem.half


def work(problem: Either, config: Config, machine: Machine) -> Work:
    """Return what a launch does: both halves and their tables are read, both halves written."""
    batches, heads, positions, _ = problem.q.shape
    size, table = problem.q.dtype.itemsize, problem.cos.dtype.itemsize
    _, k_heads = _heads(problem, config.heads)
    here = config.rows // config.heads  # positions of a tile
    columns = next_power_of_2(problem.half)
    tile = here * (config.heads + k_heads) * columns
    return Work(
        tiles=_blocks(problem, config.rows, config.heads),
        steps=1,
        step_bytes=2 * tile * size + 2 * here * columns * table,
        tile_bytes=2 * tile * size,
        step_ops=8.0 * tile,
        least_bytes=4 * batches * positions * (heads + problem.k.shape[1]) * problem.half * size,
    )


def bucket(problem: Either) -> dict[str, Value]:
    """Return what a choice depends on."""
    batches, heads, positions, width = problem.q.shape
    return {
        "dtype": dtype_name(problem.q.dtype),
        "tables": dtype_name(problem.cos.dtype),
        "half": problem.half,
        "width": extent_bucket(width),
        "heads": extent_bucket(heads),
        "kv_heads": extent_bucket(problem.k.shape[1]),
        "positions": extent_bucket(positions),
        "batches": extent_bucket(batches),
        "heads_inside": problem.q.strides[1] < problem.q.strides[2],
    }


def default(problem: Either, machine: Machine) -> Config:
    """Return the shipped configuration, as measured on an H200 (docs/results).

    A thread has two vectors of 16 bytes of each half of q, and the hint lets a multiprocessor hold eight blocks, whose
    loads are all under way at once. One vector does where that leaves multiprocessors without a block, or where k has
    as many heads and there is more than one wave. Tiles that overhang get no hint: their masks take the registers.
    """
    _, heads, positions, _ = problem.q.shape
    one = _rows_of_a_vector(problem)
    together = min(next_power_of_2(max(heads, 1)), 8 if positions > 1 else 16)
    rows = max(one, min(2 * one, 32))
    blocks, k_heads = _blocks(problem, rows, together), _heads(problem, together)[1]
    if blocks < machine.sm_count or (2 * k_heads > together and blocks > 8 * machine.sm_count):
        rows = one
    rows = min(rows, together * next_power_of_2(positions))
    together = min(together, rows)
    while ceil_div(positions, rows // together) * problem.q.shape[0] > LARGEST_GRID**2:
        rows *= 2
    return Config(rows, together, 8 if _exact(problem, rows, together) else 0, num_worker_warps=4)


def _rows_of_a_vector(problem: Either) -> int:
    """Return the rows of a tile of which each of 128 threads has 16 bytes of each half."""
    return max(128 * 16 // (next_power_of_2(problem.half) * problem.q.dtype.itemsize), 1)


def _blocks(problem: Either, rows: int, heads: int) -> int:
    """Return the tiles of so many rows and heads that cover q."""
    batches, _, positions, _ = problem.q.shape
    return _heads(problem, heads)[0] * ceil_div(positions, max(rows // heads, 1)) * batches


def _thread_bytes(problem: Either, config: Config) -> float:
    """Return the bytes of one half of q that a thread holds."""
    tile = config.rows * next_power_of_2(problem.half) * problem.q.dtype.itemsize
    return tile / (32 * (config.num_worker_warps or 4))


_ROWS = (4, 8, 16, 32, 64, 128)
_AXES = (
    {"rows": _ROWS, "heads": (1, 4, 8, 16, 32), "num_worker_warps": (4, 8)},
    {"rows": _ROWS, "heads": (4, 8, 16, 32), "occupancy": (8, 10), "num_worker_warps": (4,)},
)
_RULES: tuple[Rule[Either, Config], ...] = (
    Rule("heads: more than the tile has rows", lambda p, c, _: c.heads <= c.rows),
    Rule("heads: a smaller tile covers them", lambda p, c, _: c.heads <= next_power_of_2(max(p.q.shape[1], 1))),
    Rule(
        "heads: one at a time, where a tile could have more",
        lambda p, c, _: c.heads > 1 or min(p.q.shape[1], p.k.shape[1]) < 4,
    ),
    Rule("rows: fewer positions cover them", lambda p, c, _: c.rows // c.heads <= next_power_of_2(p.q.shape[2])),
    Rule(
        "a thread has more than 64 bytes of each half (32 with a hint), or less than 16 where there is more",
        lambda p, c, _: (
            _thread_bytes(p, c) <= (32 if c.occupancy else 64)
            and (_thread_bytes(p, c) >= 16 or c.rows // c.heads == p.q.shape[2])
        ),
    ),
)

SPACE: Space[Problem, Config] = Space(
    name="apply_rope_base",
    config=Config,
    axes=_AXES,
    rules=_RULES,
    default=default,
    launch=launch,
    bucket=bucket,
    work=work,
    in_place=("q", "k"),
    on_first_call=False,
)

BACKWARD: Space[BackwardProblem, Config] = Space(
    name="apply_rope_base_backward",
    config=Config,
    axes=_AXES,
    rules=_RULES,
    default=default,
    launch=backward_launch,
    bucket=bucket,
    work=work,
    on_first_call=False,
)
