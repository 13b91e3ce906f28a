# SPDX-License-Identifier: MIT
"""The function that rotates a model's q and k; all of them come down to `apply_rope_base`.

TileGym's op `get_apply_rope_func`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ._common import inspect
from .apply_rope_base import apply_rope_base

OP = "get_apply_rope_func"
_PLAIN = ("llama", "qwen2", "gemma3", "gpt-oss")
_QUARTER = "qwen3_5"
_COMPLEX = "deepseek"


def get_apply_rope_func(model: str = "llama") -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Return the function for a model.

    Args:
        model: ``"llama"``, ``"qwen2"``, ``"gemma3"``, ``"gpt-oss"``: `apply_rope_base` itself. ``"qwen3_5"``: a quarter
            of each head. ``"deepseek"``: a function of (q, k, table), whose table is complex, (1 or B, S, D / 2) or
            (S, D / 2), and which pairs neighbours: it returns new tensors, the even elements' results first, and leaves
            q and k as they are.

    Raises:
        ValueError: another model.
    """
    if model in _PLAIN:
        return apply_rope_base
    if model == _QUARTER:
        return _quarter
    if model == _COMPLEX:
        return _by_neighbours
    known = ", ".join((*_PLAIN, _QUARTER, _COMPLEX))
    raise ValueError(f"{OP}: unsupported model {model!r}; there are: {known}")


def _quarter(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    unsqueeze_dim: int = 1,
) -> tuple[torch.Tensor, torch.Tensor]:
    return apply_rope_base(q, k, cos, sin, position_ids, unsqueeze_dim, partial_rotary_factor=0.25)


def _by_neighbours(q: torch.Tensor, k: torch.Tensor, freqs_cis: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(freqs_cis, torch.Tensor) or not freqs_cis.is_complex():
        raise TypeError(f"{OP}: the table of {_COMPLEX!r} must be a complex tensor, got {_kind(freqs_cis)}")
    for name, tensor in (("q", q), ("k", k)):
        inspect(tensor, name, OP)
        if tensor.dim() != 4 or tensor.shape[-1] % 2:
            raise ValueError(f"{OP}: {name} must be (B, H, S, D), D even, got shape {tuple(tensor.shape)}")
    table = freqs_cis.resolve_conj()
    return apply_rope_base(_halved(q), _halved(k), table.real, table.imag)


def _halved(x: torch.Tensor) -> torch.Tensor:
    """Return a copy with the even elements of the last axis first."""
    return x.view(*x.shape[:-1], x.shape[-1] // 2, 2).transpose(-1, -2).reshape(x.shape)


def _kind(value: Any) -> str:
    return str(value.dtype) if isinstance(value, torch.Tensor) else type(value).__name__


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return nothing: the op takes no tensors. Warm up `apply_rope_base`, whose kernels its functions launch."""
    return ()
