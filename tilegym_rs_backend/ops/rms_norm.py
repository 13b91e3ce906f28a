# SPDX-License-Identifier: MIT
"""RMS normalisation over the last axis, forward and backward; kernels in `rust/src/ops/rms_norm.rs`.

TileGym's op `rms_norm`: x / sqrt(mean(x^2) + eps) * (offset + weight), in f32. Backward, with the gradient dy of the
result, r = 1 / sqrt(mean(x^2) + eps) and xn = x * r: dx = r * (weight * dy - xn * mean(xn * weight * dy)), and dw is
the sum of dy * xn over the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import check_same_device
from ..tune import choose
from ..tune import machine_of
from ._common import differentiates
from ._common import inspect
from ._common import refuse_unknown
from ._rms_norm_space import BACKWARD
from ._rms_norm_space import SPACE
from ._rms_norm_space import BackwardProblem
from ._rms_norm_space import Problem
from ._rms_norm_space import blocks
from ._rms_norm_space import dots_launch
from ._rms_norm_space import sum_launch
from ._rows import row_meta
from ._rows import unit_rows
from ._rows import vector_meta

OP = "rms_norm"
MODES = (None, "static_persistent", "multi_wave_reload", "multi_wave_cached")


def rms_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor,
    eps: float,
    bias: torch.Tensor | None = None,
    mode: str | None = None,
    offset: float = 0.0,
    **kwargs: Any,
) -> torch.Tensor:
    """Return input / sqrt(mean(input^2) + eps) * (offset + weight) over the last axis.

    Args:
        input: (..., N), f32, f16 or bf16, any strides (one whose last axis has gaps, or that is no view of rows, is
            copied first).
        normalized_shape: without effect, as in TileGym.
        weight: (N,), f32, f16 or bf16, which need not be input's dtype.
        eps: added to the mean square.
        bias: None; TileGym's cuTile refuses another too.
        mode: one of `MODES`: TileGym's choice of a kernel, without effect on the result.
        offset: added to the weight (gemma3: 1); a gradient needs 0, as in TileGym.

    Returns:
        A contiguous tensor of input's shape and dtype. A NaN makes its row NaN; an infinity itself NaN, the rest of
        its row 0.

    Raises:
        TypeError: not a tensor, or an argument this op does not know.
        ValueError: an unknown mode, or a weight of another shape.
        NotImplementedError: a bias; in backward, an offset other than 0.
        LaunchError: another dtype, a device without our kernels, mixed devices, extents or strides beyond 32 bits.
    """
    if kwargs:
        refuse_unknown(OP, kwargs)
    if bias is not None:
        raise NotImplementedError(f"{OP}: there is no bias, as in TileGym's cuTile; add it to the result")
    if mode not in MODES:
        raise ValueError(f"{OP}: mode {mode!r}; it is one of {', '.join(map(str, MODES))}")
    inspect(input, "input", OP)
    inspect(weight, "weight", OP)
    if differentiates(input, weight):
        result: torch.Tensor = _RmsNorm.apply(input, weight, eps, offset)  # type: ignore[no-untyped-call]
        return result
    return _forward(input, weight, eps, offset)


def rms_norm_backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of x and weight.

    Args:
        x: (..., N), what was normalised.
        dy: the gradient of the result, of x's shape and dtype.
        weight: (N,).
        rstd: f32, 1 / sqrt(mean(x^2) + eps) of each row.

    Raises:
        TypeError: not a tensor.
        ValueError: shapes that do not belong together.
        LaunchError: another dtype, mixed devices, extents or strides beyond 32 bits.
    """
    for name, tensor in (("x", x), ("dy", dy), ("weight", weight), ("rstd", rstd)):
        inspect(tensor, name, OP)
    check_same_device(OP, x=x, dy=dy, weight=weight, rstd=rstd)
    if dy.shape != x.shape or dy.dtype != x.dtype:
        raise ValueError(
            f"{OP}: dy is {dy.dtype} of shape {tuple(dy.shape)}, expected {x.dtype} of shape {tuple(x.shape)}, as x"
        )
    if rstd.dtype != torch.float32 or rstd.numel() * x.shape[-1] != x.numel():
        raise ValueError(f"{OP}: rstd is {rstd.dtype} of shape {tuple(rstd.shape)}, expected one float32 per row of x")
    return _backward(x, dy, weight, rstd)


class _RmsNorm(torch.autograd.Function):
    """Saves the input, the weight and each row's factor."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float) -> torch.Tensor:
        rstd = x.new_empty(x.shape[:-1], dtype=torch.float32)
        ctx.save_for_backward(x, weight, rstd)
        ctx.offset = offset
        return _forward(x, weight, eps, offset, rstd)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if ctx.offset:
            raise NotImplementedError(
                f"{OP} with offset {ctx.offset:g} has no backward in backend 'cutile_rs' (nor in TileGym's cuTile): "
                "add the offset to the weight before, or call it under torch.no_grad()"
            )
        x, weight, rstd = ctx.saved_tensors
        return (*_backward(x, grads[0].resolve_neg(), weight, rstd), None, None)


def _forward(
    x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float, rstd: torch.Tensor | None = None
) -> torch.Tensor:
    rows = unit_rows(x, OP, "input")
    target = target_of(rows, OP, "input")
    if weight.device != x.device:
        check_same_device(OP, input=x, weight=weight)
    weight = weight.contiguous()
    pointer, weight_pointer = rows.data_ptr(), weight.data_ptr()
    run = _plan(
        get_library(),
        target,
        rows.shape,
        rows.stride(),
        x.dtype,
        not pointer & 15,
        weight.shape,
        weight.dtype,
        not weight_pointer & 15,
        eps,
        offset,
        rstd is not None,
    )
    out = x.new_empty(x.shape)
    if run is not None:
        run(out.data_ptr(), pointer, weight_pointer, 0 if rstd is None else rstd.data_ptr())
    return out


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    aligned: bool,
    weight_shape: tuple[int, ...],
    weight_dtype: torch.dtype,
    weight_aligned: bool,
    eps: float,
    offset: float,
    keep: bool,
) -> Callable[..., None] | None:
    x = row_meta(OP, "input", shape, strides, dtype, aligned)
    weight = vector_meta(OP, "weight", weight_shape, weight_dtype, weight_aligned, x.shape[1])
    if 0 in x.shape:
        return None
    problem = Problem(x, weight, eps, offset, keep)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


class _Backward(NamedTuple):
    """The launches of a backward pass, and how many partial sums of dw there are; `dots` where it goes by strips."""

    parts: int
    main: Callable[..., None]
    total: Callable[..., None]
    dots: Callable[..., None] | None


def _backward(
    x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    rows, dy_rows = unit_rows(x, OP, "input"), unit_rows(dy, OP, "the gradient")
    weight, rstd = weight.contiguous(), rstd.contiguous()
    pointer, dy_pointer, weight_pointer = rows.data_ptr(), dy_rows.data_ptr(), weight.data_ptr()
    run = _backward_plan(
        get_library(),
        target_of(rows, OP, "input"),
        rows.shape,
        rows.stride(),
        x.dtype,
        not pointer & 15,
        dy_rows.stride(),
        not dy_pointer & 15,
        weight.shape,
        weight.dtype,
        not weight_pointer & 15,
    )
    dx = x.new_empty(x.shape)
    if run is None:
        return dx, torch.zeros_like(weight)
    dw = torch.empty_like(weight)
    partial = x.new_empty((run.parts, weight.shape[0]), dtype=torch.float32)
    operands = (dy_pointer, pointer, weight_pointer, rstd.data_ptr())
    if run.dots is None:
        run.main(dx.data_ptr(), partial.data_ptr(), *operands)
    else:
        dots = torch.empty_like(rstd)
        run.dots(dots.data_ptr(), *operands)
        run.main(dx.data_ptr(), partial.data_ptr(), dots.data_ptr(), *operands)
    run.total(dw.data_ptr(), partial.data_ptr())
    return dx, dw


@planned
def _backward_plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    aligned: bool,
    dy_strides: tuple[int, ...],
    dy_aligned: bool,
    weight_shape: tuple[int, ...],
    weight_dtype: torch.dtype,
    weight_aligned: bool,
) -> _Backward | None:
    x = row_meta(OP, "input", shape, strides, dtype, aligned)
    dy = row_meta(OP, "the gradient", shape, dy_strides, dtype, dy_aligned)
    weight = vector_meta(OP, "weight", weight_shape, weight_dtype, weight_aligned, x.shape[1])
    if 0 in x.shape:
        return None
    problem = BackwardProblem(dy, x, weight)
    machine = machine_of(target)
    config = choose(BACKWARD, problem, library, target)
    parts = blocks(problem, config, machine)
    return _Backward(
        parts,
        BACKWARD.launch(problem, config, machine).bind(library, target),
        sum_launch(problem, parts).bind(library, target),
        dots_launch(problem).bind(library, target) if config.strip else None,
    )


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for the input's shape (..., N), its tensors on the meta device."""
    columns = shape[-1:]
    x, weight = (torch.empty(each, dtype=dtype, device="meta") for each in (shape, columns))
    return x, columns, weight, 1e-5
