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
    """Rows of a tile, heads among them (the others are positions), hints."""

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
    batches, heads, positions, _ = problem.q.shape
    kv_heads = problem.k.shape[1]
    head_tiles = ceil_div(heads, config.heads) + ceil_div(kv_heads, config.heads)
    tiles = ceil_div(positions, config.rows // config.heads)
    far = max(tiles, batches) > LARGEST_GRID
    grid = (head_tiles, tiles, batches)
    if far:
        grid = (head_tiles, LARGEST_GRID, ceil_div(tiles * batches, LARGEST_GRID))
    block = next_power_of_2(problem.half)
    constants = {
        "ROWS": config.rows,
        "HEADS": config.heads,
        "BLOCK": block,
        "HALF": problem.half,
        "UNIT": int(all(meta.strides[-1] == 1 for meta in tensors.values())),
        "EXACT": int(_exact(problem, config.rows, config.heads) and not far),
        "FAR": int(far),
    }
    args: dict[str, TensorMeta | int | float | bool] = {**tensors}
    return Launch(kernel, grid, args, {**constants, **hints(config)})


def _exact(problem: Either, rows: int, heads: int) -> bool:
    """Whether no tile of so many rows and heads overhangs."""
    _, q_heads, positions, _ = problem.q.shape
    whole = positions % (rows // heads) == 0 and q_heads % heads == problem.k.shape[1] % heads == 0
    return whole and next_power_of_2(problem.half) == problem.half


def work(problem: Either, config: Config, machine: Machine) -> Work:
    """Return what a launch does: both halves and their tables are read, both halves written."""
    batches, heads, positions, _ = problem.q.shape
    rows = batches * positions * (heads + problem.k.shape[1])
    size, table = problem.q.dtype.itemsize, problem.cos.dtype.itemsize
    tile = config.rows * next_power_of_2(problem.half)
    return Work(
        tiles=ceil_div(rows, config.rows),
        steps=1,
        step_bytes=2 * tile * size + 2 * tile // config.heads * table,
        tile_bytes=2 * tile * size,
        step_ops=8.0 * tile,
        least_bytes=4 * rows * problem.half * size,
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

    What fits all multiprocessors at once should be there at once: with one vector of 16 bytes of each half to a thread,
    else two, else four, and the occupancy that this takes. More than that streams, with two, and so do tiles that
    overhang, whose masks take the registers.
    """
    batches, heads, positions, _ = problem.q.shape
    kv_heads = problem.k.shape[1]
    vector = 16 // problem.q.dtype.itemsize
    a_row = max(next_power_of_2(problem.half) // vector, 1)  # threads that hold a row, a vector each
    together = min(next_power_of_2(max(min(heads, kv_heads), 1)), 8)
    all_rows = batches * positions * (heads + kv_heads)
    one = max(128 // a_row, 1)  # rows of a tile of a vector to a thread
    rows, occupancy = 2 * one, 0
    for vectors, resident, hint in ((1, 12, 0), (2, 10, 10), (4, 9, 8)):
        exact = _exact(problem, vectors * one, min(together, vectors * one))
        if all_rows <= vectors * one * resident * machine.sm_count and (exact or not hint):
            rows, occupancy = vectors * one, hint
            break
    if all_rows < machine.sm_count * rows:
        rows = min(rows, together)
    together = min(together, rows)
    rows = min(rows, together * next_power_of_2(positions))
    while ceil_div(positions, rows // together) * batches > LARGEST_GRID**2:
        rows *= 2
    return Config(rows, together, occupancy, num_worker_warps=4)


def _thread_bytes(problem: Either, config: Config) -> float:
    """Return the bytes of one half that a thread holds."""
    tile = config.rows * next_power_of_2(problem.half) * problem.q.dtype.itemsize
    return tile / (32 * (config.num_worker_warps or 4))


_ROWS = (4, 8, 16, 32, 64, 128)
_AXES = (
    {"rows": _ROWS, "heads": (1, 4, 8, 16), "num_worker_warps": (4, 8)},
    {"rows": _ROWS, "heads": (8,), "occupancy": (8, 10), "num_worker_warps": (4,)},
)
_RULES: tuple[Rule[Either, Config], ...] = (
    Rule("heads: more than the tile has rows", lambda p, c, _: c.heads <= c.rows),
    Rule(
        "heads: a smaller tile covers them",
        lambda p, c, _: c.heads <= next_power_of_2(max(p.q.shape[1], p.k.shape[1], 1)),
    ),
    Rule(
        "heads: one at a time, where a tile could have more",
        lambda p, c, _: c.heads > 1 or min(p.q.shape[1], p.k.shape[1]) < 4,
    ),
    Rule("rows: fewer positions cover them", lambda p, c, _: c.rows // c.heads <= next_power_of_2(p.q.shape[2])),
    Rule(
        "a thread has more than 32 bytes of each half (64 with a hint), or less than 16 where there is more",
        lambda p, c, _: (
            _thread_bytes(p, c) <= (64 if c.occupancy else 32)
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
