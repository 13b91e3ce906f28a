# SPDX-License-Identifier: MIT
"""Layer norm over the last axis of bf16, with its statistics; kernels in `rust/src/ops/persistent_layer_norm.rs`.

TileGym's op `persistent_layer_norm`: (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, in f32. The variance is
the mean of (x - mean(x))^2; TileGym's, mean(x^2) - mean(x)^2, cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import check_same_device
from ..tune import choose
from ..tune import machine_of
from ._common import check_dtype
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._common import next_power_of_2
from ._common import refuse_unknown
from ._persistent_layer_norm_space import SPACE
from ._persistent_layer_norm_space import Problem
from ._rows import row_meta
from ._rows import unit_rows
from ._rows import vector_meta

OP = "persistent_layer_norm"
WARPS = 8
"""What TileGym returns as the number of warps."""


def persistent_layer_norm(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    mean: torch.Tensor | None = None,
    rstd: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, int]:
    """Return the layer norm of input over its last axis, its statistics, and two numbers of TileGym's; forward only.

    Args:
        input: (..., N), bf16, any strides (one whose last axis has gaps, or that is no view of rows, is copied first).
        normalized_shape: without effect, as in TileGym.
        weight, bias: (N,), f32, f16 or bf16, each of its own dtype.
        eps: added to the variance.
        mean, rstd: (rows,), to normalise by. With one of them alone both are computed, and it is overwritten.

    Returns:
        The result, of input's shape and contiguous; mean and 1 / sqrt(variance + eps) of each row, (rows,), f32, or
        the tensors given; the power of two that N fits, and 8. A NaN or an infinity makes its row NaN.

    Raises:
        TypeError: not a tensor, or an argument this op does not know.
        ValueError: a weight, bias, mean or rstd of another shape.
        LaunchError: another dtype, a device without our kernels, mixed devices, extents or strides beyond 32 bits.
    """
    if kwargs:
        refuse_unknown(OP, kwargs)
    operands = [input, weight, bias]
    for name, tensor in zip(("input", "weight", "bias"), operands, strict=True):
        inspect(tensor, name, OP)
    for name, given in (("mean", mean), ("rstd", rstd)):
        if given is not None:
            inspect(given, name, OP)
            operands.append(given)
    statistics: list[torch.Tensor] = []

    def run() -> torch.Tensor:
        y, *found = _forward(input.detach(), weight.detach(), bias.detach(), eps, mean, rstd)
        statistics.extend(found)
        return y

    y = forward_only(OP, run, *operands) if differentiates(*operands) else run()
    return y, statistics[0], statistics[1], next_power_of_2(max(input.shape[-1], 1)), WARPS


def _forward(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    mean: torch.Tensor | None,
    rstd: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rows = unit_rows(x, OP, "input")
    target = target_of(rows, OP, "input")
    others = {"weight": weight, "bias": bias, "mean": mean, "rstd": rstd}
    check_same_device(OP, input=x, **{name: one for name, one in others.items() if one is not None})
    given = mean is not None and rstd is not None
    for name, one in (("mean", mean), ("rstd", rstd)):
        if one is not None and tuple(one.shape) != (rows.shape[0],):
            raise ValueError(f"{OP}: {name} has shape {tuple(one.shape)}, expected ({rows.shape[0]},): one per row")
    weight, bias = weight.contiguous(), bias.contiguous()
    pointer, weight_pointer, bias_pointer = rows.data_ptr(), weight.data_ptr(), bias.data_ptr()
    factors = [one.to(torch.float32).contiguous() for one in (mean, rstd) if one is not None] if given else []
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
        bias.shape,
        bias.dtype,
        not bias_pointer & 15,
        eps,
        tuple(not one.data_ptr() & 15 for one in factors),
    )
    if not given:
        factors = [x.new_empty(rows.shape[0], dtype=torch.float32) for _ in range(2)]
    out = x.new_empty(x.shape)
    if run is None:
        factors = [one.fill_(math.nan) for one in factors] if not given else factors  # the mean of nothing, as torch's
    else:
        run(out.data_ptr(), *(one.data_ptr() for one in factors), pointer, weight_pointer, bias_pointer)
    for old, new in ((mean, factors[0]), (rstd, factors[1])):
        if old is not None and not given:
            old.copy_(new)
    return out, factors[0] if mean is None else mean, factors[1] if rstd is None else rstd


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
    bias_shape: tuple[int, ...],
    bias_dtype: torch.dtype,
    bias_aligned: bool,
    eps: float,
    given: tuple[bool, ...],
) -> Callable[..., None] | None:
    check_dtype(OP, "input", dtype, (torch.bfloat16,))
    x = row_meta(OP, "input", shape, strides, dtype, aligned)
    weight = vector_meta(OP, "weight", weight_shape, weight_dtype, weight_aligned, x.shape[1])
    bias = vector_meta(OP, "bias", bias_shape, bias_dtype, bias_aligned, x.shape[1])
    if 0 in x.shape:
        return None
    problem = Problem(x, weight, bias, eps, given)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for the input's shape (..., N), its tensors on the meta device."""
    columns = shape[-1:]
    x, weight, bias = (torch.empty(each, dtype=dtype, device="meta") for each in (shape, columns, columns))
    return x, columns, weight, bias, 1e-5
