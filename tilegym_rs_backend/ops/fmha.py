# SPDX-License-Identifier: MIT
"""softmax(scale * q k^T) v for whole sequences; kernels in `rust/src/ops/fmha.rs`.

TileGym's op `fmha`: scores, maxima and sums in f32; probabilities are rounded to the inputs' dtype before the product
with v.
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
from ..tensors import meta_of
from ..tune import choose
from ..tune import machine_of
from ._common import check_dtype
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._fmha_space import SPACE
from ._fmha_space import Problem

OP = "fmha"
DTYPES = (torch.float16, torch.bfloat16, torch.float8_e5m2)
LARGEST_HEAD = 256


def fmha(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scaling: float | None = None,
    is_causal: bool = True,
    **kwargs: Any,
) -> torch.Tensor:
    """Return softmax(scaling * q k^T) v.

    Args:
        q: (B, H, S, D), f16, bf16 or f8e5m2, any strides; D at most 256.
        k: (B, H_kv, S_kv, D), same dtype; H is a multiple of H_kv, and query head h reads head h // (H / H_kv).
        v: as k.
        scaling: of the scores; by default 1 / sqrt(D).
        is_causal: query i sees the keys up to i + S_kv - S, so that the last query sees all of them.
        kwargs: further TileGym options (``kernel_configs``), accepted and without effect on the result.

    Returns:
        (B, H, S, D), contiguous, q's dtype. A row that sees no key is NaN.

    Raises:
        TypeError: not a tensor.
        ValueError: ranks or extents that do not fit.
        LaunchError: another dtype, mixed dtypes or devices, extents or strides beyond 32 bits.
    """
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        inspect(tensor, name, OP)
    if differentiates(q, k, v):
        detached = (q.detach(), k.detach(), v.detach())
        return forward_only(OP, lambda: _forward(*detached, scaling, bool(is_causal)), q, k, v)
    return _forward(q, k, v, scaling, bool(is_causal))


def _forward(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scaling: float | None, is_causal: bool) -> torch.Tensor:
    if not q.device == k.device == v.device:
        check_same_device(OP, q=q, k=k, v=v)
    if scaling is not None and scaling <= 0:
        # The kernel takes the maximum before it scales, and hides keys behind -inf: the factor's sign goes into q.
        sign = -1.0 if scaling < 0 else 0.0
        signed = q * sign if q.dtype.itemsize > 1 else (q.to(torch.float16) * sign).to(q.dtype)
        return _forward(signed, k, v, -scaling or 1.0, is_causal)
    target = target_of(q, OP, "q")
    run = _plan(
        get_library(),
        target,
        meta_of(q),
        meta_of(k),
        meta_of(v),
        None if scaling is None else float(scaling),
        is_causal,
    )
    if run is None:  # no query, or a sum over no keys
        return q.new_full(q.shape, math.nan) if q.numel() else q.new_empty(q.shape)
    out = q.new_empty(q.shape)
    run(out.data_ptr(), q.data_ptr(), k.data_ptr(), v.data_ptr())
    return out


@planned
def _plan(
    library: Library,
    target: Target,
    q: TensorMeta,
    k: TensorMeta,
    v: TensorMeta,
    scaling: float | None,
    is_causal: bool,
) -> Callable[..., None] | None:
    for name, meta in (("q", q), ("k", k), ("v", v)):
        if len(meta.shape) != 4:
            raise ValueError(f"{OP}: {name} must have 4 dimensions (B, H, S, D), got shape {meta.shape}")
        check_extents(name, OP, meta.shape, meta.strides)
        check_dtype(OP, name, meta.dtype, DTYPES)
        if meta.dtype != q.dtype:
            raise LaunchError(f"{OP}: q is {q.dtype} but {name} is {meta.dtype}; convert one of them", rc=-2)
    (batch, heads, _, dim), (kv_batch, kv_heads, keys, kv_dim) = q.shape, k.shape
    if v.shape != k.shape:
        raise ValueError(f"{OP}: k has shape {k.shape} but v has {v.shape}; they must agree")
    if (kv_batch, kv_dim) != (batch, dim):
        raise ValueError(f"{OP}: q {q.shape} and k {k.shape} differ in batch or head size")
    if dim > LARGEST_HEAD:
        raise ValueError(f"{OP}: the head size is {dim}; at most {LARGEST_HEAD} is supported")
    if 0 in q.shape:
        return None
    if kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"{OP}: {heads} query heads are not a multiple of {kv_heads} key heads")
    if keys == 0:
        return None
    scale = (1.0 / math.sqrt(dim) if scaling is None else scaling) * math.log2(math.e)
    problem = Problem(q, k, v, scale, is_causal)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for shape (B, H, H_kv, S, S_kv, D), on the meta device."""
    if len(shape) != 6:
        raise ValueError(f"{OP}: a shape is B, H, H_kv, S, S_kv, D (BxHxH_kvxSxS_kvxD), got {tuple(shape)}")
    b, h, h_kv, s, s_kv, d = shape
    q = torch.empty((b, h, s, d), dtype=dtype, device="meta")
    k, v = (torch.empty((b, h_kv, s_kv, d), dtype=dtype, device="meta") for _ in range(2))
    return q, k, v
