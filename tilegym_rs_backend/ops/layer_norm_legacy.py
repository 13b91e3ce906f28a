# SPDX-License-Identifier: MIT
"""Layer norm over the last axis; kernels in `rust/src/ops/layer_norm_legacy.rs`.

TileGym's op `layer_norm_legacy`: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * (weight + weight_shift) + bias, in
f32.
"""

from __future__ import annotations

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
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._common import refuse_unknown
from ._layer_norm_legacy_space import SPACE
from ._layer_norm_legacy_space import Problem
from ._rows import row_meta
from ._rows import unit_rows
from ._rows import vector_meta

OP = "layer_norm_legacy"


def layer_norm_legacy(
    input: torch.Tensor,
    normalized_shape: Any,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    weight_shift: float = 0.0,
    **kwargs: Any,
) -> torch.Tensor:
    """Return the layer norm of input over its last axis, forward only.

    Args:
        input: (..., N), f32, f16 or bf16, any strides (one whose last axis has gaps, or that is no view of rows, is
            copied first).
        normalized_shape: without effect, as in TileGym.
        weight, bias: (N,), f32, f16 or bf16, each of its own dtype.
        eps: added to the variance.
        weight_shift: added to the weight, in f32.

    Returns:
        A tensor of input's shape and dtype, with the strides of ``torch.empty_like(input)``. A NaN or an infinity
        makes its row NaN.

    Raises:
        TypeError: not a tensor, or an argument this op does not know.
        ValueError: a weight or bias of another shape.
        LaunchError: another dtype, a device without our kernels, mixed devices, extents or strides beyond 32 bits.
    """
    if kwargs:
        refuse_unknown(OP, kwargs)
    inspect(input, "input", OP)
    inspect(weight, "weight", OP)
    inspect(bias, "bias", OP)
    if differentiates(input, weight, bias):
        detached = input.detach(), weight.detach(), bias.detach()
        return forward_only(OP, lambda: _forward(*detached, eps, weight_shift), input, weight, bias)
    return _forward(input, weight, bias, eps, weight_shift)


def _forward(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float, weight_shift: float
) -> torch.Tensor:
    rows = unit_rows(x, OP, "input")
    target = target_of(rows, OP, "input")
    if not weight.device == bias.device == x.device:
        check_same_device(OP, input=x, weight=weight, bias=bias)
    weight, bias = weight.contiguous(), bias.contiguous()
    pointer, weight_pointer, bias_pointer = rows.data_ptr(), weight.data_ptr(), bias.data_ptr()
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
        weight_shift,
    )
    out = torch.empty_like(x)
    if run is None:
        return out
    if out.is_contiguous():
        run(out.data_ptr(), pointer, weight_pointer, bias_pointer)
        return out
    packed = x.new_empty(x.shape)
    run(packed.data_ptr(), pointer, weight_pointer, bias_pointer)
    return out.copy_(packed)


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
    weight_shift: float,
) -> Callable[..., None] | None:
    x = row_meta(OP, "input", shape, strides, dtype, aligned)
    weight = vector_meta(OP, "weight", weight_shape, weight_dtype, weight_aligned, x.shape[1])
    bias = vector_meta(OP, "bias", bias_shape, bias_dtype, bias_aligned, x.shape[1])
    if 0 in x.shape:
        return None
    problem = Problem(x, weight, bias, eps, weight_shift)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for the input's shape (..., N), its tensors on the meta device."""
    columns = shape[-1:]
    x, weight, bias = (torch.empty(each, dtype=dtype, device="meta") for each in (shape, columns, columns))
    return x, columns, weight, bias, 1e-5
