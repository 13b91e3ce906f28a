# SPDX-License-Identifier: MIT
"""Partial attention results merged by their log-sum-exps; kernels in `rust/src/ops/splitk_reduce.rs`.

TileGym's op `splitk_reduce`. With w = exp2(lse - max lse) over the splits: sum(w * partial) / sum(w), in f32.
"""

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
from ..tensors import check_extents
from ..tensors import check_same_device
from ..tune import choose
from ..tune import machine_of
from ._common import Traits
from ._common import check_dtype
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._common import metas
from ._common import traits
from ._splitk_reduce_space import SPACE
from ._splitk_reduce_space import Problem

OP = "splitk_reduce"


def splitk_reduce(
    attn_splitk_out: torch.Tensor,
    lse_splitk_out: torch.Tensor,
    attn_out: torch.Tensor,
    S_kv: int,
    **kwargs: Any,
) -> torch.Tensor:
    """Merge the splits into attn_out and return it.

    Args:
        attn_splitk_out: (B, H, splits, D), f32, f16 or bf16, any strides.
        lse_splitk_out: (B, H, splits), log-sum-exps base 2, f32, f16 or bf16, any strides. A split of -inf counts
            nothing; a row with a NaN, with +inf, or of nothing but -inf makes its result NaN.
        attn_out: (B, H, D), f32, f16 or bf16, any strides that keep its elements apart; written in place.
        S_kv: length of the keys; accepted and not used, as in TileGym.
        kwargs: further TileGym options, accepted and without effect.

    Raises:
        TypeError: not a tensor.
        ValueError: shapes that do not fit, or no split.
        LaunchError: another dtype, mixed devices, an expanded attn_out, extents or strides beyond 32 bits.
    """
    for name, tensor in (
        ("attn_splitk_out", attn_splitk_out),
        ("lse_splitk_out", lse_splitk_out),
        ("attn_out", attn_out),
    ):
        inspect(tensor, name, OP)
    if differentiates(attn_splitk_out, lse_splitk_out, attn_out):
        given = (attn_splitk_out, lse_splitk_out, attn_out)
        detached = tuple(one.detach() for one in given)
        return forward_only(OP, lambda: _merge(*detached), *given)
    return _merge(attn_splitk_out, lse_splitk_out, attn_out)


def _merge(partials: torch.Tensor, lse: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    if not partials.device == lse.device == out.device:
        check_same_device(OP, attn_splitk_out=partials, lse_splitk_out=lse, attn_out=out)
    target = target_of(partials, OP, "attn_splitk_out")
    run = _plan(get_library(), target, traits(out), traits(partials), traits(lse))
    if run is not None:
        run(out.data_ptr(), partials.data_ptr(), lse.data_ptr())
        increment_version(out)  # so that autograd notices if it had kept what was there
    return out


@planned
def _plan(library: Library, target: Target, *given: Traits) -> Callable[..., None] | None:
    out, partials, lse = metas(*given)
    if len(partials.shape) != 4:
        raise ValueError(f"{OP}: attn_splitk_out must be (B, H, splits, D), got shape {partials.shape}")
    batches, heads, splits, width = partials.shape
    for name, meta, shape in (
        ("attn_splitk_out", partials, partials.shape),
        ("lse_splitk_out", lse, (batches, heads, splits)),
        ("attn_out", out, (batches, heads, width)),
    ):
        if meta.shape != shape:
            raise ValueError(f"{OP}: {name} has shape {meta.shape}, expected {shape}")
        check_extents(name, OP, meta.shape, meta.strides)
        check_dtype(OP, name, meta.dtype)
    if any(stride == 0 and extent > 1 for extent, stride in zip(out.shape, out.strides, strict=True)):
        raise LaunchError(f"{OP}: attn_out has elements that share memory (an expanded tensor); clone it", rc=-6)
    if 0 in out.shape:
        return None
    if splits == 0:
        raise ValueError(f"{OP}: there is no split to merge, attn_splitk_out has shape {partials.shape}")
    problem = Problem(out, partials, lse)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for shape (B, H, splits, D), on the meta device; log-sum-exps in f32."""
    if len(shape) != 4:
        raise ValueError(f"{OP}: a shape is B, H, splits, D (BxHxsplitsxD), got {shape}")
    b, h, splits, d = shape
    partials = torch.empty(shape, dtype=dtype, device="meta")
    lse = torch.empty((b, h, splits), dtype=torch.float32, device="meta")
    return partials, lse, torch.empty((b, h, d), dtype=dtype, device="meta"), splits * 128
