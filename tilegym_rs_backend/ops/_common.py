# SPDX-License-Identifier: MIT
"""What the op modules share: rows of a tensor, outputs, gradients that do not exist, checks of `out=`."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import LaunchError
from ..tensors import TensorMeta
from ..tensors import check_tensor

HALF_OR_SINGLE = (torch.float32, torch.float16, torch.bfloat16)


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
    """Run a forward-only op; if a gradient is asked for, hang a node on the result whose backward raises."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        result: torch.Tensor = _ForwardOnly.apply(op, run, *tensors)  # type: ignore[no-untyped-call]
        return result
    return run()


def inspect(x: torch.Tensor, name: str, op: str) -> None:
    """Raise unless `x` can be described to a kernel; an ordinary tensor passes after three attribute reads."""
    if type(x) is not torch.Tensor or x.layout is not torch.strided or x.is_neg():
        check_tensor(x, name, op)


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


def elements_per_load(extent: int, itemsize: int) -> int:
    """Return the largest power of two of elements that fits 16 bytes and divides `extent`: a load can be that wide."""
    width = 16 // itemsize
    while extent % width:
        width //= 2
    return width
