# SPDX-License-Identifier: MIT
"""First half * gelu(second half) of one axis, and its gradient; kernels in `rust/src/ops/geglu.rs`.

TileGym's op `geglu`. With a and b the halves and g the result's gradient: da = g * gelu(b), db = g * a * gelu'(b). gelu
is that of `ops/gelu.py`, in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import check_extents
from ..tune import choose
from ..tune import machine_of
from ._common import check_dtype
from ._common import differentiates
from ._common import inspect
from ._gated import Matrix
from ._gated import Problem
from ._geglu_space import BACKWARD
from ._geglu_space import SPACE
from .gelu import by_tanh

OP = "geglu"


def geglu(input: torch.Tensor, dim: int = -1, approximate: str = "none") -> torch.Tensor:
    """Return a * gelu(b), a and b being the halves of the input along `dim`.

    Args:
        input: f32, f16 or bf16, at least one axis, any strides (one that is not contiguous is copied first).
        dim: the axis; its extent is even.
        approximate: ``"none"``: gelu by the normal distribution function; ``"tanh"``: by tanh.

    Returns:
        Contiguous, the input's shape with half as much along `dim`. NaN propagates, and so does inf times 0.

    Raises:
        TypeError: not a tensor.
        ValueError: no such axis, an odd extent, or another approximation.
        LaunchError: another dtype, a device without our kernels, halves beyond 32 bits.
    """
    inspect(input, "input", OP)
    constants = by_tanh(OP, approximate)
    rank = input.dim()
    if not -rank <= dim < rank:
        raise ValueError(f"{OP}: dim {dim} of an input with {rank} axes")
    axis = dim % rank
    if input.shape[axis] % 2:
        raise ValueError(f"{OP}: axis {axis} must hold both halves (an even extent), got shape {tuple(input.shape)}")
    if differentiates(input):
        result: torch.Tensor = _Geglu.apply(input, axis, constants)  # type: ignore[no-untyped-call]
        return result
    return _forward(input.contiguous(), axis, constants)


class _Geglu(torch.autograd.Function):
    """Saves the input alone; the backward kernel computes gelu again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, axis: int, constants: tuple[tuple[str, int], ...]) -> torch.Tensor:
        x = x.contiguous()
        ctx.save_for_backward(x)
        ctx.axis, ctx.constants = axis, constants
        return _forward(x, axis, constants)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return _backward(grads[0].resolve_neg().contiguous(), x, ctx.axis, ctx.constants), None, None


def _forward(x: torch.Tensor, axis: int, constants: tuple[tuple[str, int], ...]) -> torch.Tensor:
    target = target_of(x, OP, "input")
    pointer = x.data_ptr()
    found = _plan(get_library(), target, x.shape, axis, x.dtype, pointer & 15, constants)
    shape = list(x.shape)
    shape[axis] //= 2
    out = x.new_empty(shape)
    if found is not None:
        run, half = found
        run(out.data_ptr(), pointer + half, pointer)
    return out


def _backward(grad: torch.Tensor, x: torch.Tensor, axis: int, constants: tuple[tuple[str, int], ...]) -> torch.Tensor:
    target = target_of(x, OP, "input")
    pointer, grad_pointer = x.data_ptr(), grad.data_ptr()
    found = _backward_plan(
        get_library(), target, x.shape, axis, x.dtype, pointer & 15, not grad_pointer & 15, constants
    )
    grad_x = torch.empty_like(x)
    if found is not None:
        run, half = found
        first = grad_x.data_ptr()
        run(first + half, first, grad_pointer, pointer + half, pointer)
    return grad_x


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    axis: int,
    dtype: torch.dtype,
    offset: int,
    constants: tuple[tuple[str, int], ...],
) -> tuple[Callable[..., None], int] | None:
    """Return the launch, and the bytes from the first half to the second."""
    rows, cols, between = _halves(shape, axis, dtype)
    if rows == 0 or cols == 0:
        return None
    half = cols * dtype.itemsize
    matrices = (Matrix(cols, True), Matrix(between, not (offset + half) & 15), Matrix(between, not offset))
    problem = Problem(rows, cols, dtype, matrices, constants)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target), half


@planned
def _backward_plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    axis: int,
    dtype: torch.dtype,
    offset: int,
    grad_aligned: bool,
    constants: tuple[tuple[str, int], ...],
) -> tuple[Callable[..., None], int] | None:
    """Return the launch, and the bytes from the first half to the second."""
    rows, cols, between = _halves(shape, axis, dtype)
    if rows == 0 or cols == 0:
        return None
    half = cols * dtype.itemsize
    matrices = (
        Matrix(between, not half & 15),
        Matrix(between, True),
        Matrix(cols, grad_aligned),
        Matrix(between, not (offset + half) & 15),
        Matrix(between, not offset),
    )
    problem = Problem(rows, cols, dtype, matrices, constants)
    config = choose(BACKWARD, problem, library, target)
    return BACKWARD.launch(problem, config, machine_of(target)).bind(library, target), half


def _halves(shape: tuple[int, ...], axis: int, dtype: torch.dtype) -> tuple[int, int, int]:
    """Return rows and columns of a half, and the elements from row to row: all behind an index before the axis."""
    check_dtype(OP, "input", dtype)
    rows, cols = math.prod(shape[:axis]), math.prod(shape[axis:]) // 2
    between = cols if rows == 1 else 2 * cols
    check_extents("input", OP, (rows, cols), (between, 1))
    return rows, cols, between


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for a shape of any number of axes, on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
