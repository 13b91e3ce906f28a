# SPDX-License-Identifier: MIT
"""What ops over contiguous memory share: shapes do not matter to them, only the number of elements.

A block takes one tile; what can be chosen is its length and the warps that share it. Kernels take the tensors, scalars
of their own, and the number of elements in the last tile; their first constants are TILE and EXACT.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import NamedTuple

import torch

from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import Scalar
from ..tensors import TensorMeta
from ..tensors import dtype_name
from ..tune import choose
from ..tune import machine_of
from ..tuning.machine import Machine
from ..tuning.space import Launch
from ..tuning.space import Rule
from ..tuning.space import Space
from ..tuning.space import Value
from ..tuning.space import Work
from ..tuning.space import extent_bucket
from ..tuning.space import hints
from ._common import ceil_div
from ._common import check_dtype
from ._common import is_contiguous

AXES: Mapping[str, Sequence[Value]] = {
    "tile": (512, 1024, 2048, 4096, 8192, 16384),
    "num_worker_warps": (4, 8),
}


@dataclass(frozen=True)
class Config:
    """Elements of a tile, hints."""

    tile: int
    occupancy: int = 0
    num_worker_warps: int = 4


class Problem(NamedTuple):
    """Tensors of `n` elements.

    Attributes:
        n: elements of each tensor.
        dtype: of all.
        aligned: whether each tensor's address divides by 16, in the kernel's order, results first.
        constants: of the kernel besides TILE and EXACT.
    """

    n: int
    dtype: torch.dtype
    aligned: tuple[bool, ...]
    constants: tuple[tuple[str, int], ...] = ()


def launch_of(
    kernel: str, names: Sequence[str], problem: Problem, config: Config, scalars: Mapping[str, Scalar] | None = None
) -> Launch:
    """Return the launch of a configuration.

    Args:
        kernel: the entry.
        names: its tensors' parameters.
        problem, config: what is computed, and how.
        scalars: its parameters between the tensors and the last tile's length.
    """
    args: dict[str, TensorMeta | Scalar] = {
        name: TensorMeta((problem.n,), (1,), problem.dtype, aligned)
        for name, aligned in zip(names, problem.aligned, strict=True)
    }
    blocks = ceil_div(problem.n, config.tile)
    constants = {"TILE": config.tile, "EXACT": int(problem.n % config.tile == 0), **dict(problem.constants)}
    return Launch(
        kernel,
        (blocks, 1, 1),
        {**args, **(scalars or {}), "last": problem.n - (blocks - 1) * config.tile},
        {**constants, **hints(config)},
    )


def bucket(problem: Problem) -> dict[str, Value]:
    """Return what a choice depends on."""
    return {
        "dtype": dtype_name(problem.dtype),
        "n": extent_bucket(problem.n),
        "aligned": all(problem.aligned),
        **{name.lower(): value for name, value in problem.constants},
    }


def default(problem: Problem, machine: Machine) -> Config:
    """Return the shipped configuration, as measured on an H200, where all of these are near the memory's limit.

    A thread has 16 bytes of each tensor; of two tensors in 16 bits 32 bytes, or 64 where that makes a single wave of
    blocks.
    """
    least = 2048 // problem.dtype.itemsize
    tile = least
    if len(problem.aligned) == 2 and problem.dtype.itemsize == 2:
        one_wave = 2 * machine.sm_count <= ceil_div(problem.n, 4 * least) <= 8 * machine.sm_count
        tile = 4 * least if one_wave else 2 * least
    while tile > least and ceil_div(problem.n, tile) < machine.sm_count:
        tile //= 2  # few elements: more blocks are worth more than full tiles
    return Config(tile)


RULES: tuple[Rule[Problem, Config], ...] = (
    Rule(
        "a thread has less than 16 or more than 128 bytes of each tensor",
        lambda p, c, _: 16 <= c.tile * p.dtype.itemsize / (32 * (c.num_worker_warps or 4)) <= 128,
    ),
)


def space(name: str, launch: Callable[[Problem, Config, Machine], Launch], operations: float) -> Space[Problem, Config]:
    """Return what can be chosen of a kernel with one result.

    Args:
        name: the space's.
        launch: stands in the op's own module.
        operations: per element, with exponentials as 8.
    """

    def work(problem: Problem, config: Config, machine: Machine) -> Work:
        size = problem.dtype.itemsize
        return Work(
            tiles=ceil_div(problem.n, config.tile),
            steps=1,
            step_bytes=(len(problem.aligned) - 1) * config.tile * size,
            tile_bytes=config.tile * size,
            step_ops=operations * config.tile,
            least_bytes=len(problem.aligned) * problem.n * size,
        )

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


def is_dense(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether elements fill a piece of memory, each place once, in whatever order of the axes."""
    axes = sorted(range(len(shape)), key=lambda axis: (strides[axis], shape[axis]), reverse=True)
    return is_contiguous(tuple(shape[axis] for axis in axes), tuple(strides[axis] for axis in axes))


@dataclass(frozen=True, eq=False)
class Elementwise:
    """A kernel of one result and one or more inputs of one shape and dtype, as a function of these.

    Attributes:
        op: what messages call it.
        name: the first input in messages.
        space: what can be chosen of it.
    """

    op: str
    name: str
    space: Space[Problem, Config]

    def __call__(self, *inputs: torch.Tensor, constants: tuple[tuple[str, int], ...] = ()) -> torch.Tensor:
        """Return the result, laid out like ``torch.empty_like`` of the first input.

        An input that has gaps, or lies otherwise than the result, is copied first. Nothing is launched for no elements.

        Raises:
            LaunchError: a dtype or device that no kernel takes.
        """
        first = inputs[0]
        target = target_of(first, self.op, self.name)
        pointers: list[int] = []
        layouts: list[Any] = []
        for each in inputs:
            pointer = each.data_ptr()
            pointers.append(pointer)
            layouts += (each.stride(), not pointer & 15)
        found = _plan(get_library(), target, self, first.shape, first.dtype, constants, *layouts)
        out = torch.empty_like(first)
        if found is not None:
            run, copied = found
            if copied:
                copies = {index: torch.empty_like(out).copy_(inputs[index]) for index in copied}
                pointers = [copies.get(index, each).data_ptr() for index, each in enumerate(inputs)]
            run(out.data_ptr(), *pointers)
        return out


@planned
def _plan(
    library: Library,
    target: Target,
    kernel: Elementwise,
    shape: tuple[int, ...],
    dtype: torch.dtype,
    constants: tuple[tuple[str, int], ...],
    *layouts: Any,
) -> tuple[Callable[..., None], tuple[int, ...]] | None:
    """Return the launch, and which inputs have to be copied first. `layouts`: of each strides, and whether aligned."""
    check_dtype(kernel.op, kernel.name, dtype)
    if 0 in shape:
        return None
    strides: tuple[tuple[int, ...], ...] = layouts[::2]
    first = strides[0]
    dense = is_dense(shape, first)
    copied = tuple(index for index, each in enumerate(strides) if not dense or each != first)
    aligned = (aligned or index in copied for index, aligned in enumerate(layouts[1::2]))
    problem = Problem(math.prod(shape), dtype, (True, *aligned), constants)
    config = choose(kernel.space, problem, library, target)
    return kernel.space.launch(problem, config, machine_of(target)).bind(library, target), copied
