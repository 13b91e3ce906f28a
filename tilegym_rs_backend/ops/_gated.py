# SPDX-License-Identifier: MIT
"""What activation(gate) * other and its backward share in geglu, get_swiglu and silu_and_mul.

All tensors are matrices (rows, cols) with contiguous rows at any distance: the halves of a tensor are two of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from typing import Protocol

import torch

from ..tensors import Scalar
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

FORWARD: Mapping[str, str] = {"out": "out_row", "gate": "gate_row", "other": "other_row"}
"""Tensors of the forward kernels, results first, and the parameters that hold the distance of their rows."""
BACKWARD: Mapping[str, str] = {
    "to_gate": "to_row",
    "to_other": "to_row",
    "grad": "grad_row",
    "gate": "gate_row",
    "other": "other_row",
}
"""The same of the backward kernels."""

AXES: Mapping[str, Sequence[Value]] = {
    "rows": (1, 2, 4, 8, 16, 32, 64, 128, 256),
    "cols": (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192),
    "num_worker_warps": (4, 8),
}


@dataclass(frozen=True)
class Config:
    """Rows and columns of a tile, hints."""

    rows: int
    cols: int
    occupancy: int = 0
    num_worker_warps: int = 4


class Matrix(NamedTuple):
    """One tensor: elements from row to row, and whether its address divides by 16."""

    row: int
    aligned: bool


class Problem(NamedTuple):
    """Matrices of `rows` x `cols`.

    Attributes:
        rows, cols: extents.
        dtype: of all.
        matrices: in the order of `FORWARD` or `BACKWARD`.
        constants: of the kernel besides those of its tiles.
    """

    rows: int
    cols: int
    dtype: torch.dtype
    matrices: tuple[Matrix, ...]
    constants: tuple[tuple[str, int], ...] = ()


def launch_of(kernel: str, problem: Problem, config: Config) -> Launch:
    """Return the launch of a configuration of a forward or backward kernel."""
    rows, cols = problem.rows, problem.cols
    names = FORWARD if len(problem.matrices) == len(FORWARD) else BACKWARD
    args: dict[str, TensorMeta | Scalar] = {}
    distances: dict[str, Scalar] = {}
    for (name, distance), matrix in zip(names.items(), problem.matrices, strict=True):
        args[name] = TensorMeta((rows, cols), (matrix.row, 1), problem.dtype, matrix.aligned)
        distances[distance] = matrix.row
    grid, constants = tiling(rows, cols, config)
    constants |= {"ALIGN": _elements_per_load(problem), **dict(problem.constants)}
    return Launch(kernel, grid, {**args, "rows": rows, "cols": cols, **distances}, {**constants, **hints(config)})


class Tile(Protocol):
    """Rows and columns of a configuration's tile."""

    @property
    def rows(self) -> int: ...

    @property
    def cols(self) -> int: ...


def tiling(rows: int, cols: int, tile: Tile) -> tuple[tuple[int, int, int], dict[str, int]]:
    """Return the grid of tiles over (rows, cols), and the kernels' constants that go with it.

    WHOLE: a tile holds whole rows, and the grid has one axis. EXACT: none overhangs.
    """
    row_tiles = ceil_div(rows, tile.rows)
    whole = tile.cols >= cols
    if whole:
        grid = (row_tiles, 1, 1)
    elif row_tiles <= 65535:
        grid = (ceil_div(cols, tile.cols), row_tiles, 1)
    else:  # the grid's second axis ends at 65535, so many rows take the third one too
        grid = (ceil_div(cols, tile.cols), 32768, ceil_div(row_tiles, 32768))
    covered = tile.rows * (grid[0] if whole else grid[1] * grid[2])
    exact = cols % tile.cols == 0 and covered == rows
    return grid, {"ROWS": tile.rows, "COLS": tile.cols, "WHOLE": int(whole), "EXACT": int(exact)}


def work(problem: Problem, config: Config, machine: Machine) -> Work:
    """Return what a launch does."""
    results = 1 if len(problem.matrices) == len(FORWARD) else 2
    tile = config.rows * config.cols * problem.dtype.itemsize
    return Work(
        tiles=ceil_div(problem.rows, config.rows) * ceil_div(problem.cols, config.cols),
        steps=1,
        step_bytes=(len(problem.matrices) - results) * tile,
        tile_bytes=results * tile,
        step_ops=(14.0 + 10.0 * results) * config.rows * config.cols,
        least_bytes=len(problem.matrices) * problem.rows * problem.cols * problem.dtype.itemsize,
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    return {
        "dtype": dtype_name(problem.dtype),
        "rows": extent_bucket(problem.rows),
        "cols": extent_bucket(problem.cols),
        "load": _elements_per_load(problem),
        **{name.lower(): value for name, value in problem.constants},
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration: a thread has 16 bytes of each matrix."""
    elements = 2048 // problem.dtype.itemsize
    cols = min(next_power_of_2(problem.cols), elements)
    rows = elements // cols
    while rows > 1 and ceil_div(problem.rows, rows) * ceil_div(problem.cols, cols) < 4 * machine.sm_count:
        rows //= 2  # few rows: more blocks are worth more than full tiles
    return Config(rows, cols)


RULES: tuple[Rule[Problem, Config], ...] = (
    Rule("cols: a smaller tile covers the row", lambda p, c, _: c.cols <= next_power_of_2(p.cols)),
    Rule(
        "rows: more than one beside a tile that does not cover the row",
        lambda p, c, _: c.rows == 1 or c.cols >= p.cols,
    ),
    Rule(
        "a thread has less than 16 or more than 128 bytes of each matrix",
        lambda p, c, _: 16 <= c.rows * c.cols * p.dtype.itemsize / (32 * (c.num_worker_warps or 4)) <= 128,
    ),
)


def space(name: str, launch: Callable[[Problem, Config, Machine], Launch]) -> Space[Problem, Config]:
    """Return what can be chosen of a forward or backward kernel; `launch` stands in the op's own module."""
    return Space(
        name=name,
        config=Config,
        axes=AXES,
        rules=RULES,
        default=default,
        launch=launch,
        bucket=bucket,
        work=work,
        on_first_call=False,
    )


def distance_of_rows(shape: Sequence[int], strides: Sequence[int], cols: int) -> int | None:
    """Return how far apart the rows of a tensor lie if it is seen as (rows, cols), its last axes making up `cols`.

    None if a row is not contiguous, or rows are not all equally far apart.
    """
    expected, covered, distance = 1, 1, None
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if covered == cols:
            if distance is None:
                distance = expected = stride
            if stride != expected:
                return None
        elif stride != expected:
            return None
        else:
            covered *= extent
        expected *= extent
    return cols if distance is None else distance


def _elements_per_load(problem: Problem) -> int:
    """Return how many elements a load takes: all rows have to begin at a multiple of it."""
    return elements_per_load(
        math.gcd(problem.cols, *(matrix.row for matrix in problem.matrices)), problem.dtype.itemsize
    )
