# SPDX-License-Identifier: MIT
"""silu(first half) * second half of the last axis; kernels in `rust/src/ops/silu_and_mul.rs`.

TileGym's op `silu_and_mul`. With x = [a | b] along the last axis: a / (1 + exp(-a)) * b, in f32. Backward, with the
gradient g of the result and s = 1 / (1 + exp(-a)): da = g * b * (s + a * s * (1 - s)), db = g * a * s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version

from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import TensorMeta
from ..tensors import check_extents
from ..tensors import check_same_device
from ..tune import choose
from ..tune import machine_of
from ._common import as_rows
from ._common import check_dtype
from ._common import check_out
from ._common import check_overlap
from ._common import differentiates
from ._common import inspect
from ._gated import Matrix
from ._gated import Problem as BackwardProblem
from ._rows import unit_rows
from ._silu_and_mul_space import BACKWARD
from ._silu_and_mul_space import SPACE
from ._silu_and_mul_space import Problem

OP = "silu_and_mul"


def silu_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return silu(input[..., :H]) * input[..., H:] for an input of shape (..., 2H).

    Args:
        input: f32, f16 or bf16, any strides (one that is no view of rows is copied first).
        out: receives the result in place and is returned; shape (..., H), same dtype and device, any strides.

    Returns:
        Shape (..., H), contiguous unless `out` is given. NaN propagates; a = -inf gives NaN (-inf * 0), as in torch.

    Raises:
        TypeError: not a tensor.
        ValueError: an odd last axis, an `out` of another shape, or `out` with a gradient asked for (as in TileGym).
        LaunchError: another dtype, mixed devices, an out that shares elements with the input and is none of its
            halves, extents beyond 32 bits.
    """
    inspect(input, "input", OP)
    if out is not None:
        inspect(out, "out", OP)
        if differentiates(input, out):
            raise ValueError(f"{OP}: out= does not go with a gradient; call it under torch.no_grad()")
    elif differentiates(input):
        result: torch.Tensor = _SiluAndMul.apply(input)  # type: ignore[no-untyped-call]
        return result
    return _forward(input, out)


class _SiluAndMul(torch.autograd.Function):
    """Saves the input alone; the backward kernel computes the sigmoid again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return _forward(x, None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return _backward(grads[0].resolve_neg(), x)


def _forward(x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    hidden, shape = _shapes(x)
    rows = as_rows(x)
    target = target_of(rows, OP, "input")
    if out is None:
        result = x.new_empty(shape)
        flat_shape: tuple[int, ...] = (rows.shape[0], hidden)
        flat_strides: tuple[int, ...] = (hidden, 1)
        back = None
    else:
        check_same_device(OP, input=x, out=out)
        check_out(OP, out, x, shape)
        result = out
        back = as_rows(out)
        flat_shape, flat_strides = back.shape, back.stride()
    pointer, out_pointer = rows.data_ptr(), (result if back is None else back).data_ptr()
    run = _plan(
        get_library(),
        target,
        rows.shape,
        rows.stride(),
        x.dtype,
        not pointer & 15,
        flat_shape,
        flat_strides,
        not out_pointer & 15,
    )
    if run is not None:
        if back is not None:
            check_overlap(OP, rows, back)
        run(out_pointer, pointer)
        if back is not None and back.data_ptr() != out.data_ptr():  # type: ignore[union-attr]
            result.copy_(back.view(shape))
        elif back is not None:
            increment_version(result)  # so that autograd notices if it had kept what was there
    return result


def _backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    target = target_of(x, OP, "input")
    rows, grad_rows = unit_rows(x, OP, "input"), unit_rows(grad, OP, "the gradient")
    pointer, grad_pointer = rows.data_ptr(), grad_rows.data_ptr()
    distances = (rows.stride(0), grad_rows.stride(0))
    found = _backward_plan(get_library(), target, rows.shape, distances, x.dtype, pointer & 15, not grad_pointer & 15)
    grad_x = x.new_empty(x.shape)
    if found is not None:
        run, half = found
        first = grad_x.data_ptr()
        run(first, first + half, grad_pointer, pointer, pointer + half)
    return grad_x


def _shapes(x: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    """Return H and the result's shape."""
    if x.dim() == 0 or x.shape[-1] % 2:
        raise ValueError(f"{OP}: the last axis must hold both halves (an even extent), got shape {tuple(x.shape)}")
    hidden = x.shape[-1] // 2
    return hidden, (*x.shape[:-1], hidden)


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, int],
    strides: tuple[int, int],
    dtype: torch.dtype,
    aligned: bool,
    out_shape: tuple[int, ...],
    out_strides: tuple[int, ...],
    out_aligned: bool,
) -> Callable[..., None] | None:
    halves = _halves(shape, strides, dtype, aligned)
    if halves is None:
        return None
    check_extents("out", OP, out_shape, out_strides)
    problem = Problem(TensorMeta(tuple(out_shape), tuple(out_strides), dtype, out_aligned), halves)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


@planned
def _backward_plan(
    library: Library,
    target: Target,
    shape: tuple[int, int],
    distances: tuple[int, int],
    dtype: torch.dtype,
    offset: int,
    grad_aligned: bool,
) -> tuple[Callable[..., None], int] | None:
    """Return the launch, and the bytes between the halves. `distances`: from row to row of the input, and of grad."""
    rows, hidden = shape[0], shape[1] // 2
    if rows == 0 or hidden == 0:
        return None
    half = hidden * dtype.itemsize
    from_row, grad_row = distances
    check_extents("input", OP, shape, (max(from_row, 2 * hidden), 1))
    matrices = (
        Matrix(2 * hidden, True),
        Matrix(2 * hidden, not half & 15),
        Matrix(grad_row, grad_aligned),
        Matrix(from_row, not offset),
        Matrix(from_row, not (offset + half) & 15),
    )
    problem = BackwardProblem(rows, hidden, dtype, matrices)
    config = choose(BACKWARD, problem, library, target)
    return BACKWARD.launch(problem, config, machine_of(target)).bind(library, target), half


def _halves(shape: tuple[int, int], strides: tuple[int, int], dtype: torch.dtype, aligned: bool) -> TensorMeta | None:
    """Return the input seen as (rows, 2, H), None when there is nothing to compute."""
    check_dtype(OP, "input", dtype)
    check_extents("input", OP, shape, strides)
    rows, hidden = shape[0], shape[1] // 2
    if rows == 0 or hidden == 0:
        return None
    halves = TensorMeta((rows, 2, hidden), (strides[0], hidden * strides[1], strides[1]), dtype, aligned)
    check_extents("input", OP, halves.shape, halves.strides)
    return halves


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for the input's shape (..., 2H), on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
