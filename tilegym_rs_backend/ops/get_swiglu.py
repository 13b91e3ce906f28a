# SPDX-License-Identifier: MIT
"""silu(a) * b and its gradients; kernels in `rust/src/ops/get_swiglu.rs`.

TileGym's op `get_swiglu`, a function without arguments that returns the op. silu(a) is rounded to the dtype before the
product. Backward, with the gradient g of the result and s = 1 / (1 + exp(-a)): da = g * b * (s + a * s * (1 - s)),
db = g * a * s, rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

from ..errors import LaunchError
from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import check_extents
from ..tensors import check_same_device
from ..tune import choose
from ..tune import machine_of
from ._common import check_dtype
from ._common import differentiates
from ._common import empty_like_strides
from ._common import inspect
from ._gated import Matrix
from ._gated import Problem
from ._gated import distance_of_rows
from ._get_swiglu_space import BACKWARD
from ._get_swiglu_space import SPACE

OP = "get_swiglu"


def get_swiglu() -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    """Return `swiglu`."""
    return swiglu


def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return silu(a) * b.

    Args:
        a: f32, f16 or bf16, any shape and strides. One whose rows are not contiguous, or not equally far apart, is
            copied first, unless it is laid out like the result.
        b: the same shape, dtype and device.

    Returns:
        A tensor of that shape and dtype, with the strides of ``torch.empty_like(a)``. NaN propagates; a = -inf gives
        NaN (-inf * 0), as in torch.

    Raises:
        TypeError: no tensors.
        ValueError: shapes differ.
        LaunchError: another dtype, dtypes or devices that differ, extents or strides beyond 32 bits.
    """
    inspect(a, "a", OP)
    inspect(b, "b", OP)
    if a.shape != b.shape:
        raise ValueError(f"{OP}: a has shape {tuple(a.shape)}, b {tuple(b.shape)}: they must be equal")
    if a.dtype != b.dtype:
        raise LaunchError(f"{OP}: a has dtype {a.dtype}, b {b.dtype}: they must be equal", rc=-2)
    if a.device != b.device:
        check_same_device(OP, a=a, b=b)
    if differentiates(a, b):
        result: torch.Tensor = _Swiglu.apply(a, b)  # type: ignore[no-untyped-call]
        return result
    return _forward(a, b)


class _Swiglu(torch.autograd.Function):
    """Saves the inputs; the backward kernel computes silu again."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return _forward(a, b)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = ctx.saved_tensors
        return _backward(grads[0].resolve_neg(), a, b)


class _Planned(NamedTuple):
    """A launch, and which tensors have to be copied first, by number."""

    run: Callable[..., None]
    copied: tuple[int, ...]


Operand = tuple[tuple[int, ...], bool]
"""Strides of a tensor, and whether its address divides by 16."""


def _forward(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    target = target_of(a, OP, "a")
    pointers = [a.data_ptr(), b.data_ptr()]
    operands = ((a.stride(), not pointers[0] & 15), (b.stride(), not pointers[1] & 15))
    plan = _plan(get_library(), target, a.shape, a.dtype, operands)
    out = torch.empty_like(a)
    if plan is not None:
        copies = {index: torch.empty_like(out).copy_((a, b)[index]) for index in plan.copied}
        for index, copy in copies.items():
            pointers[index] = copy.data_ptr()
        plan.run(out.data_ptr(), *pointers)
    return out


def _backward(grad: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    target = target_of(a, OP, "a")
    tensors = [grad, a, b]
    operands = tuple((each.stride(), not each.data_ptr() & 15) for each in tensors)
    plan = _backward_plan(get_library(), target, a.shape, a.dtype, operands)
    to_a, to_b = (a.new_empty(a.shape) for _ in range(2))
    if plan is not None:
        for index in plan.copied:
            tensors[index] = tensors[index].contiguous()
        plan.run(to_a.data_ptr(), to_b.data_ptr(), *(each.data_ptr() for each in tensors))
    return to_a, to_b


@planned
def _plan(
    library: Library, target: Target, shape: tuple[int, ...], dtype: torch.dtype, operands: tuple[Operand, ...]
) -> _Planned | None:
    check_dtype(OP, "a", dtype)
    if 0 in shape:
        return None
    # Axes in the order in which the result lies in memory: there it is contiguous.
    order = sorted(range(len(shape)), key=empty_like_strides(shape, operands[0][0]).__getitem__, reverse=True)
    shape = tuple(shape[axis] for axis in order)
    seen = tuple((tuple(strides[axis] for axis in order), aligned) for strides, aligned in operands)
    rows, cols, matrices, copied = _arranged(shape, seen, ("a", "b"))
    problem = Problem(rows, cols, dtype, (Matrix(cols, True), *matrices))
    config = choose(SPACE, problem, library, target)
    return _Planned(SPACE.launch(problem, config, machine_of(target)).bind(library, target), copied)


@planned
def _backward_plan(
    library: Library, target: Target, shape: tuple[int, ...], dtype: torch.dtype, operands: tuple[Operand, ...]
) -> _Planned | None:
    if 0 in shape:
        return None
    rows, cols, matrices, copied = _arranged(shape, operands, ("grad", "a", "b"))
    problem = Problem(rows, cols, dtype, (Matrix(cols, True), Matrix(cols, True), *matrices))
    config = choose(BACKWARD, problem, library, target)
    return _Planned(BACKWARD.launch(problem, config, machine_of(target)).bind(library, target), copied)


def _arranged(
    shape: tuple[int, ...], operands: tuple[Operand, ...], names: tuple[str, ...]
) -> tuple[int, int, tuple[Matrix, ...], tuple[int, ...]]:
    """Return rows, columns, the operands as matrices beside contiguous results, and which of them must be copied.

    Where nothing is between any rows, all are one row.
    """
    n, cols = math.prod(shape), shape[-1] if shape else 1
    found = [distance_of_rows(shape, strides, cols) for strides, _ in operands]
    copied = tuple(index for index, distance in enumerate(found) if distance is None)
    distances = [cols if distance is None else distance for distance in found]
    if n < 2**31 and all(distance == cols for distance in distances):
        cols, distances = n, [n] * len(distances)
    rows = n // cols
    for name, distance in zip(names, distances, strict=True):
        check_extents(name, OP, (rows, cols), (distance, 1))
    matrices = tuple(
        Matrix(distance, aligned or index in copied)
        for index, ((_, aligned), distance) in enumerate(zip(operands, distances, strict=True))
    )
    return rows, cols, matrices, copied


called = swiglu


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return what `swiglu` takes for a shape of any number of axes, on the meta device."""
    return torch.empty(shape, dtype=dtype, device="meta"), torch.empty(shape, dtype=dtype, device="meta")
