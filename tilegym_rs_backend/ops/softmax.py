# SPDX-License-Identifier: MIT
"""softmax over the last axis of a 2-D tensor; kernels in `rust/src/ops/softmax.rs`.

TileGym's op `softmax` with its four variants' arguments. Formula: exp(x - max(x)) / sum(exp(x - max(x))) per row, in
f32.
"""

from __future__ import annotations

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
from ..tune import choose
from ..tune import machine_of
from ._common import check_dtype
from ._common import differentiates
from ._common import empty_like_strides
from ._common import forward_only
from ._common import inspect
from ._common import refuse_unknown
from ._softmax_space import SPACE
from ._softmax_space import Problem

OP = "softmax"


def softmax(x: torch.Tensor, use_tma: bool = False, **kwargs: Any) -> torch.Tensor:
    """Return softmax(x) over the last axis.

    Args:
        x: (rows, columns), f32, f16 or bf16, any strides; columns on the last axis.
        use_tma: TileGym's choice of a variant, as are ``use_chunked`` and ``use_multi_wave`` in `kwargs`: accepted,
            and without effect on the result. The configuration measured best for the shape runs; on Hopper the loads
            and schedules these flags ask for lost on every shape.

    Returns:
        A tensor of x's shape and dtype, with the strides of ``torch.empty_like(x)``. A row with a NaN or +inf, or of
        nothing but -inf, is NaN, as in torch.

    Raises:
        TypeError: not a tensor, or an argument this op does not know.
        ValueError: use_tma together with use_chunked, as in TileGym.
        LaunchError: another rank or dtype, a device without our kernels, extents or strides beyond 32 bits.
    """
    if kwargs:
        _check_options(use_tma, dict(kwargs))
    inspect(x, "x", OP)
    if differentiates(x):
        return forward_only(OP, lambda: _forward(x.detach()), x)
    return _forward(x)


def _check_options(use_tma: bool, options: dict[str, Any]) -> None:
    chunked = options.pop("use_chunked", False)
    options.pop("use_multi_wave", False)
    refuse_unknown(OP, options)
    if use_tma and chunked:
        raise ValueError(f"{OP}: use_tma and use_chunked exclude each other")


def _forward(x: torch.Tensor) -> torch.Tensor:
    target = target_of(x, OP, "x")
    pointer = x.data_ptr()
    run = _plan(get_library(), target, x.shape, x.stride(), x.dtype, not pointer & 15)
    out = torch.empty_like(x)
    if run is not None:
        run(out.data_ptr(), pointer)
    return out


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    aligned: bool,
) -> Callable[..., None] | None:
    if len(shape) != 2:
        raise LaunchError(f"{OP}: x must have 2 dimensions (rows, columns), got shape {tuple(shape)}", rc=-6)
    check_dtype(OP, "x", dtype)
    check_extents("x", OP, shape, strides)
    rows, columns = shape
    if rows == 0 or columns == 0:
        return None
    out_strides = empty_like_strides(shape, strides)
    problem = Problem(
        TensorMeta(tuple(shape), out_strides, dtype, True), TensorMeta(tuple(shape), tuple(strides), dtype, aligned)
    )
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for shape (rows, columns), on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
