# SPDX-License-Identifier: MIT
"""Layer norm over axes in the middle of a tensor; kernels in `rust/src/ops/layer_norm.rs`.

TileGym's op `layer_norm`: over axes start_dim to end_dim, (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) *
(weight + weight_shift) + bias, in f32. With nothing behind these axes it is `layer_norm_legacy`'s kernel that runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..errors import LaunchError
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
from . import _layer_norm_legacy_space as over_rows
from ._common import check_dtype
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._common import refuse_unknown
from ._layer_norm_legacy_space import SPACE as ROWS
from ._layer_norm_space import SPACE
from ._layer_norm_space import Problem
from ._rows import vector_meta

OP = "layer_norm"


def layer_norm(
    x: torch.Tensor,
    start_dim: int,
    end_dim: int,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    weight_shift: float = 0.0,
    **kwargs: Any,
) -> torch.Tensor:
    """Return the layer norm of x over axes start_dim to end_dim (not included), forward only.

    Args:
        x: f32, f16 or bf16, any strides (one with gaps or of permuted axes is copied first).
        start_dim, end_dim: axes; negative ones count from the end.
        weight, bias: one element for each place of the normalised axes, f32, f16 or bf16, each of its own dtype.
        eps: added to the variance.
        weight_shift: added to the weight, in f32.

    Returns:
        A contiguous tensor of x's shape and dtype. A NaN or an infinity makes what is normalised with it NaN.

    Raises:
        TypeError: not a tensor, or an argument this op does not know.
        ValueError: axes that are none or in the wrong order, a weight or bias of another size.
        LaunchError: another dtype, a device without our kernels, mixed devices, extents beyond 32 bits.
    """
    if kwargs:
        refuse_unknown(OP, kwargs)
    inspect(x, "x", OP)
    inspect(weight, "weight", OP)
    inspect(bias, "bias", OP)
    if differentiates(x, weight, bias):
        detached = x.detach(), start_dim, end_dim, weight.detach(), bias.detach()
        return forward_only(OP, lambda: _forward(*detached, eps, weight_shift), x, weight, bias)
    return _forward(x, start_dim, end_dim, weight, bias, eps, weight_shift)


def _forward(
    x: torch.Tensor,
    start_dim: int,
    end_dim: int,
    weight: torch.Tensor,
    bias: torch.Tensor,
    eps: float,
    weight_shift: float,
) -> torch.Tensor:
    shape = squashed(tuple(x.shape), start_dim, end_dim)
    target = target_of(x, OP, "x")
    if not weight.device == bias.device == x.device:
        check_same_device(OP, x=x, weight=weight, bias=bias)
    x, weight, bias = x.contiguous(), weight.contiguous(), bias.contiguous()
    pointer, weight_pointer, bias_pointer = x.data_ptr(), weight.data_ptr(), bias.data_ptr()
    run = _plan(
        get_library(),
        target,
        shape,
        x.dtype,
        not pointer & 15,
        weight.numel(),
        weight.dtype,
        not weight_pointer & 15,
        bias.numel(),
        bias.dtype,
        not bias_pointer & 15,
        eps,
        weight_shift,
    )
    out = x.new_empty(x.shape)
    if run is not None:
        run(out.data_ptr(), pointer, weight_pointer, bias_pointer)
    return out


def squashed(shape: tuple[int, ...], start_dim: int, end_dim: int) -> tuple[int, int, int]:
    """Return how many elements are ahead of axes start_dim to end_dim, on them, and behind them.

    Raises:
        ValueError: the axes are none, or in the wrong order.
    """
    rank = len(shape)
    start, end = (axis + rank if axis < 0 else axis for axis in (start_dim, end_dim))
    if not 0 <= start < end <= rank:
        raise ValueError(
            f"{OP}: start_dim {start_dim} and end_dim {end_dim} name no axes of a tensor of {rank} dimensions; from "
            "start_dim to the one before end_dim is normalised"
        )
    return math.prod(shape[:start]), math.prod(shape[start:end]), math.prod(shape[end:])


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, int, int],
    dtype: torch.dtype,
    aligned: bool,
    weight_size: int,
    weight_dtype: torch.dtype,
    weight_aligned: bool,
    bias_size: int,
    bias_dtype: torch.dtype,
    bias_aligned: bool,
    eps: float,
    weight_shift: float,
) -> Callable[..., None] | None:
    check_dtype(OP, "x", dtype)
    groups, depth, behind = shape
    weight = vector_meta(OP, "weight", (weight_size,), weight_dtype, weight_aligned, depth)
    bias = vector_meta(OP, "bias", (bias_size,), bias_dtype, bias_aligned, depth)
    if 0 in shape:
        return None
    check_extents("x", OP, shape, ())
    if behind == 1:
        rows = TensorMeta((groups, depth), (depth, 1), dtype, aligned)
        legacy = over_rows.Problem(rows, weight, bias, eps, weight_shift)
        return ROWS.launch(legacy, choose(ROWS, legacy, library, target), machine_of(target)).bind(library, target)
    if behind >= 2**30:
        raise LaunchError(
            f"{OP}: x has {behind} elements behind the normalised axes, at most {2**30 - 1} are numbered with 32 bits: "
            "split the tensor there",
            rc=-6,
        )
    problem = Problem(
        shape, TensorMeta((groups * depth, behind), (behind, 1), dtype, aligned), weight, bias, eps, weight_shift
    )
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for an x normalised over its second axis, its tensors on the meta device."""
    x, weight, bias = (torch.empty(each, dtype=dtype, device="meta") for each in (shape, shape[1:2], shape[1:2]))
    return x, 1, 2, weight, bias, 1e-5
