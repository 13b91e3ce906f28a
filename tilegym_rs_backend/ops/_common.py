# SPDX-License-Identifier: MIT
"""What the op modules share: rows of a tensor, outputs, gradients that do not exist, checks of `out=`."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd import forward_ad

from ..errors import LaunchError
from ..tensors import TensorMeta
from ..tensors import check_kind

HALF_OR_SINGLE = (torch.float32, torch.float16, torch.bfloat16)
FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def check_dtype(op: str, name: str, dtype: torch.dtype, allowed: Sequence[torch.dtype] = HALF_OR_SINGLE) -> None:
    """Raise LaunchError unless a tensor's dtype is one of `allowed`."""
    if dtype not in allowed:
        names = ", ".join(str(each).removeprefix("torch.") for each in allowed)
        raise LaunchError(f"{op}: {name} has dtype {dtype}; this op takes {names}", rc=-2)


def refuse_unknown(op: str, unknown: dict[str, Any]) -> None:
    """Raise TypeError naming keyword arguments the op does not know."""
    if unknown:
        raise TypeError(f"{op}: unknown arguments {sorted(unknown)}")


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """Return `x` as (rows, columns) over its last axis: a view where the strides allow one, else a contiguous copy."""
    if x.dim() == 2:
        return x
    if x.numel() == 0:
        return x.new_empty((math.prod(x.shape[:-1]), x.shape[-1]))
    try:
        return x.view(-1, x.shape[-1])
    except RuntimeError:
        return x.contiguous().view(-1, x.shape[-1])


def contiguous_meta(shape: tuple[int, ...], dtype: torch.dtype) -> TensorMeta:
    """Return the metadata of a fresh contiguous tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return TensorMeta(tuple(shape), tuple(strides), dtype, True)


Traits = tuple[tuple[int, ...], tuple[int, ...], torch.dtype, bool]
"""What a plan depends on of a tensor, as it comes: shape, strides, dtype, whether its address divides by 16."""


def traits(x: torch.Tensor) -> Traits:
    """Return a tensor's traits: the key of a plan, at half the cost of `meta_of`."""
    return x.shape, x.stride(), x.dtype, not x.data_ptr() & 15


def metas(*of: Traits) -> tuple[TensorMeta, ...]:
    """Return the metadata of several tensors' traits."""
    return tuple(TensorMeta(tuple(shape), tuple(strides), dtype, aligned) for shape, strides, dtype, aligned in of)


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least `n`, for n >= 1."""
    return 1 << (n - 1).bit_length()


def ceil_div(a: int, b: int) -> int:
    """Return a / b rounded up, for positive b."""
    return -(-a // b)


def check_out(op: str, out: torch.Tensor, like: torch.Tensor, shape: tuple[int, ...]) -> None:
    """Raise unless `out` can receive a result of `shape` with the dtype and device of `like`.

    Raises:
        ValueError: another shape.
        LaunchError: another dtype or device, or elements that share memory.
    """
    if tuple(out.shape) != tuple(shape):
        raise ValueError(f"{op}: out has shape {tuple(out.shape)}, expected {tuple(shape)}")
    if out.dtype != like.dtype or out.device != like.device:
        raise LaunchError(
            f"{op}: out is {out.dtype} on {out.device}, the input is {like.dtype} on {like.device}: they must agree",
            rc=-6,
        )
    if any(stride == 0 and extent > 1 for extent, stride in zip(out.shape, out.stride(), strict=True)):
        raise LaunchError(f"{op}: out has elements that share memory (an expanded tensor); pass out.clone()", rc=-6)


def check_overlap(op: str, x: torch.Tensor, out: torch.Tensor) -> None:
    """Refuse an `out` (rows, H) that shares elements with `x` (rows, 2H), unless it is exactly one of its halves.

    A half is safe: what a tile block overwrites, it alone has read.

    Raises:
        LaunchError: they overlap, or are interleaved in a way that is not told apart from that.
    """
    if x.is_meta:
        return
    rows, hidden = out.shape
    pitch = x.stride(0) * x.element_size()
    one_pitch = rows == 1 or out.stride(0) == x.stride(0)
    if one_pitch and out.stride(1) == x.stride(1) and out.data_ptr() in (x.data_ptr(), x[:, hidden:].data_ptr()):
        return
    (first, end), (out_first, out_end) = span(x), span(out)
    if end <= out_first or out_end <= first:
        return
    if rows > 1 and one_pitch and pitch:  # out may lie in the columns, or the rows, that x leaves out
        width, out_width = span(x[:1])[1] - first, span(out[:1])[1] - out_first
        if width <= (out_first - first) % pitch <= pitch - out_width:
            return
    raise LaunchError(f"{op}: out overlaps the input other than as one of its halves; pass a separate out", rc=-6)


def span(t: torch.Tensor) -> tuple[int, int]:
    """Return the addresses of a tensor's first byte and of the one after its last."""
    last = sum((extent - 1) * stride for extent, stride in zip(t.shape, t.stride(), strict=True))
    return t.data_ptr(), t.data_ptr() + (last + 1) * t.element_size()


class _ForwardOnly(torch.autograd.Function):
    """The graph node of an op without a backward: TileGym's behaviour is to fail in backward, not to detach."""

    @staticmethod
    def forward(ctx: Any, op: str, run: Callable[[], torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
        ctx.op = op
        return run()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise NotImplementedError(
            f"{ctx.op} has no backward in backend 'cutile_rs' (nor in TileGym's cuTile); call it under "
            "torch.no_grad(), or detach its input"
        )


def forward_only(op: str, run: Callable[[], torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    """Run a forward-only op with a node on the result whose backward raises."""
    result: torch.Tensor = _ForwardOnly.apply(op, run, *tensors)  # type: ignore[no-untyped-call]
    return result


def differentiates(*tensors: torch.Tensor) -> bool:
    """Whether torch asks for a gradient of what comes of `tensors`, or, for a dual number, for a tangent.

    An op then has to go through its autograd.Function: torch itself refuses a tangent there, which would be lost.
    """
    if forward_ad._current_level >= 0:
        return True
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def inspect(x: torch.Tensor, name: str, op: str) -> None:
    """Raise unless `x` is a tensor the kernels can read, extents aside; an ordinary one passes after three reads."""
    if type(x) is not torch.Tensor or x.layout is not torch.strided or x.is_neg():
        check_kind(x, name, op)


def empty_like_strides(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides `torch.empty_like` gives a tensor of these: kept where dense, contiguous where not."""
    return torch.empty_like(torch.empty_strided(shape, strides, device="meta")).stride()


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether a tensor of these is laid out without gaps, last axis first; strides of extents below 2 do not count."""
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent > 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def without_gaps(*metas: TensorMeta) -> bool:
    """Whether all of these tensors are contiguous."""
    return all(is_contiguous(meta.shape, meta.strides) for meta in metas)


def mma_type(dtype: torch.dtype) -> str:
    """Return what the tensor cores take a dtype's tiles as: ``"tf32"``, ``"f16"`` (bf16 too) or ``"f8"``."""
    return {4: "tf32", 2: "f16", 1: "f8"}[dtype.itemsize]


def elements_per_load(extent: int, itemsize: int) -> int:
    """Return the largest power of two of elements that fits 16 bytes and divides `extent`: a load can be that wide."""
    width = 16 // itemsize
    while extent % width:
        width //= 2
    return width
