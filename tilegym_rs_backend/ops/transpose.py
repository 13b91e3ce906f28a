# SPDX-License-Identifier: MIT
"""The transpose of a matrix, copied; the kernel is in `rust/src/ops/transpose.rs`. TileGym's op `transpose`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import increment_version

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
from ._common import check_out
from ._common import contiguous_meta
from ._common import differentiates
from ._common import inspect
from ._common import span
from ._transpose_space import SPACE
from ._transpose_space import Problem

OP = "transpose"
_AS_THEY_ARE = (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64)
_MOVED_AS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""By element size: what any other dtype is moved as; its bits are what counts."""


def transpose(
    inp: torch.Tensor, out: torch.Tensor | None = None, static_persistent: bool | None = None, **kwargs: Any
) -> torch.Tensor:
    """Return the transpose of a matrix in memory of its own.

    Args:
        inp: (M, N), any dtype of 1, 2, 4 or 8 bytes, any strides.
        out: receives the result and is returned; (N, M), the same dtype and device, any strides.
        static_persistent: TileGym's schedule; accepted, and without effect on the result, as are `kwargs`.

    Returns:
        (N, M), contiguous unless `out` is given; with its gradient, the transpose of the result's.

    Raises:
        TypeError: not a tensor.
        ValueError: another rank or shape, or an `out` that asks for a gradient.
        LaunchError: an element of 16 bytes, an out of another dtype or device, expanded, or within the input's memory;
            extents or strides beyond 32 bits.
    """
    inspect(inp, "inp", OP)
    if inp.is_conj():
        inp = inp.resolve_conj()
    if out is not None:
        inspect(out, "out", OP)
        if differentiates(out):
            raise ValueError(f"{OP}: out asks for a gradient, which it would lose; call it under torch.no_grad()")
    if differentiates(inp):
        result: torch.Tensor = _Transpose.apply(inp, out)  # type: ignore[no-untyped-call]
        return result
    return _copy(inp, out)


class _Transpose(torch.autograd.Function):
    """The gradient is the op itself, so it can be differentiated again."""

    @staticmethod
    def forward(ctx: Any, inp: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        return _copy(inp, out)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return transpose(grads[0].resolve_neg()), None


def _copy(x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    target = target_of(x, OP, "inp")
    pointer = x.data_ptr()
    if out is None:
        run = _plan(get_library(), target, x.shape, x.stride(), x.dtype, not pointer & 15, None, True)
        result = x.new_empty(x.shape[::-1])
        if run is not None:
            run(result.data_ptr(), pointer)
        return result
    check_same_device(OP, inp=x, out=out)
    check_out(OP, out, x, x.shape[::-1])
    out_pointer = out.data_ptr()
    run = _plan(
        get_library(), target, x.shape, x.stride(), x.dtype, not pointer & 15, out.stride(), not out_pointer & 15
    )
    if run is not None:
        (first, end), (out_first, out_end) = span(x), span(out)
        if not x.is_meta and first < out_end and out_first < end:
            raise LaunchError(f"{OP}: out lies within the input's memory; pass a separate out", rc=-6)
        run(out_pointer, pointer)
        increment_version(out)  # so that autograd notices if it had kept what was there
    return out


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    aligned: bool,
    out_strides: tuple[int, ...] | None,
    out_aligned: bool,
) -> Callable[..., None] | None:
    if len(shape) != 2:
        raise ValueError(f"{OP}: inp must have 2 dimensions, got shape {tuple(shape)}")
    check_extents("inp", OP, shape, strides)
    if dtype not in _AS_THEY_ARE:
        if dtype.itemsize not in _MOVED_AS:
            raise LaunchError(f"{OP}: inp has dtype {dtype}; elements of up to 8 bytes are moved", rc=-2)
        dtype = _MOVED_AS[dtype.itemsize]
    if 0 in shape:
        return None
    out = contiguous_meta(tuple(shape[::-1]), dtype)
    if out_strides is not None:
        check_extents("out", OP, out.shape, out_strides)
        out = TensorMeta(out.shape, tuple(out_strides), dtype, out_aligned)
    problem = Problem(out, TensorMeta(tuple(shape), tuple(strides), dtype, aligned))
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensor for the input's shape (M, N), on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
