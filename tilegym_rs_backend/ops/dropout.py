# SPDX-License-Identifier: MIT
"""Dropout by a hash; kernel in `rust/src/ops/dropout.rs`.

TileGym's op `dropout`, forward only. Element i of the tensor, counted row by row, is kept where hash(i, seed) / (2^31 -
1) is above p, and multiplied by 1 / (1 - p) rounded to the dtype; the others become 0. The mask is TileGym's for the
same seed, and seed and p are the kernel's arguments: another seed compiles nothing.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import torch
from torch.autograd.graph import increment_version

from ..errors import LaunchError
from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tune import choose
from ..tune import machine_of
from ._common import check_dtype
from ._common import differentiates
from ._common import inspect
from ._common import is_contiguous
from ._common import refuse_unknown
from ._dropout_space import SPACE
from ._flat import Problem

OP = "dropout"
_HASHES = 2**31
_SPREAD = 0x9E3779B1


def dropout(
    x: torch.Tensor, seed: int, p: float = 0.5, training: bool = True, inplace: bool = False, **kwargs: Any
) -> torch.Tensor:
    """Return x with about the share `p` of its elements set to 0 and the others multiplied by 1 / (1 - p).

    Args:
        x: f32, f16 or bf16, any shape and strides (one that is not contiguous is copied first).
        seed: any integer; the same one gives the same mask.
        p: the share; from 1 on all become 0.
        training: False: x itself is returned as it is.
        inplace: write to x and return it.

    Returns:
        A contiguous tensor of x's shape and dtype, or x.

    Raises:
        TypeError: not a tensor, a seed that is no integer, an argument this op does not know.
        LaunchError: another dtype, a device without our kernels, an x to write to whose elements share memory.
    """
    if kwargs:
        refuse_unknown(OP, kwargs)
    inspect(x, "x", OP)
    if not training:
        return x
    if differentiates(x):
        result: torch.Tensor = _Dropout.apply(x, seed, p, inplace)  # type: ignore[no-untyped-call]
        return result
    return _forward(x, seed, p, inplace)


class _Dropout(torch.autograd.Function):
    """TileGym's behaviour: there is no backward, and nothing is detached either."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, seed: int, p: float, inplace: bool) -> torch.Tensor:
        if inplace:
            ctx.mark_dirty(x)
        return _forward(x, seed, p, inplace)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        raise NotImplementedError(
            f"{OP} has no backward in backend 'cutile_rs' (nor in TileGym's cuTile); call it under torch.no_grad(), "
            "or detach its input"
        )


class _Planned(NamedTuple):
    """A launch, the length of its last tile, and whether it takes x as it is: contiguous."""

    run: Callable[..., None]
    last: int
    contiguous: bool


def _forward(x: torch.Tensor, seed: int, p: float, inplace: bool) -> torch.Tensor:
    target = target_of(x, OP, "x")
    mixed = (int(seed) * _SPREAD + _HASHES) % 2**32 - _HASHES
    pointer = x.data_ptr()
    plan = _plan(get_library(), target, x.shape, x.stride(), x.dtype, not pointer & 15, inplace)
    source = x if plan is None or plan.contiguous else x.contiguous()
    out = source if inplace else x.new_empty(x.shape)
    if plan is None:
        return x if inplace else out
    threshold, scale = _terms(p, x.dtype)
    plan.run(out.data_ptr(), source.data_ptr(), scalars=(mixed, threshold, scale, plan.last))
    if not inplace:
        return out
    if plan.contiguous:
        increment_version(x)  # so that autograd notices if it had kept what was there
    else:
        x.copy_(out)
    return x


@functools.lru_cache(maxsize=256)
def _terms(p: float, dtype: torch.dtype) -> tuple[int, float]:
    """Return the largest hash that is dropped, and what the others are multiplied by, in the dtype.

    The share is compared as f32: hash / (2^31 - 1), both as the f32 nearest to them, against p as f32. That grows with
    the hash, so one hash parts those that are dropped from the others.
    """
    share = _f32(float(p))
    low, high = -1, _HASHES - 1
    while low < high:
        middle = -((low + high) // -2)
        if _f32(middle) / _HASHES > share:
            high = middle - 1
        else:
            low = middle
    return low, 0.0 if p >= 1.0 else float(torch.tensor(1.0 / (1.0 - p), dtype=dtype))


def _f32(value: float) -> float:
    rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    return rounded


@planned
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    aligned: bool,
    inplace: bool,
) -> _Planned | None:
    check_dtype(OP, "x", dtype)
    if inplace and any(stride == 0 and extent > 1 for extent, stride in zip(shape, strides, strict=True)):
        raise LaunchError(f"{OP}: x has elements that share memory (an expanded tensor); pass x.clone()", rc=-6)
    if 0 in shape:
        return None
    contiguous = is_contiguous(shape, strides)
    read = aligned or not contiguous
    problem = Problem(math.prod(shape), dtype, (read if inplace else True, read))
    config = choose(SPACE, problem, library, target)
    launch = SPACE.launch(problem, config, machine_of(target))
    return _Planned(launch.bind(library, target), int(launch.args["last"]), contiguous)  # type: ignore[arg-type]


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor | int, ...]:
    """Return the op's tensors for a shape of any number of axes, on the meta device, and a seed."""
    return torch.empty(shape, dtype=dtype, device="meta"), 0
