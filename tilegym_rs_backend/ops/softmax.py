# SPDX-License-Identifier: MIT
"""softmax over the last axis of a 2-D tensor; kernels in `rust/src/ops/softmax.rs`.

TileGym's op `softmax` with its four variants' arguments. Formula: exp(x - max(x)) / sum(exp(x - max(x))) per row, in
f32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..errors import LaunchError
from ..launch import PLANS
from ..launch import bind
from ..launch import kernels
from ..library import Library
from ..library import get_library
from ..target import Target
from ..target import target_of
from ..tensors import TensorMeta
from ..tensors import check_extents
from ._common import ceil_div
from ._common import check_dtype
from ._common import empty_like_strides
from ._common import forward_only
from ._common import inspect
from ._common import next_power_of_2
from ._common import refuse_unknown

OP = "softmax"
VARIANTS = ("default", "tma", "chunked", "multi_wave")


@dataclass(frozen=True)
class Config:
    """How one shape runs: rows and columns of a tile, TMA or not, blocks per multiprocessor (0: a block per tile)."""

    rows: int
    block: int
    tma: bool = False
    blocks_per_sm: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0
    chunked: bool = False


def softmax(x: torch.Tensor, use_tma: bool = False, **kwargs: Any) -> torch.Tensor:
    """Return softmax(x) over the last axis.

    Args:
        x: (rows, columns), f32, f16 or bf16, any strides; columns on the last axis.
        use_tma: load and store through the tensor memory accelerator.
        kwargs: ``use_chunked`` (rows in chunks, two passes) and ``use_multi_wave`` (one tile per block), TileGym's
            other variants. Without any, the configuration measured best for the shape runs.

    Returns:
        A tensor of x's shape and dtype, with the strides of ``torch.empty_like(x)``. A row with a NaN or +inf, or of
        nothing but -inf, is NaN, as in torch.

    Raises:
        LaunchError: another rank or dtype, a device without our kernels, extents or strides beyond 32 bits.
    """
    variant = "tma" if use_tma else "default"
    if kwargs:
        variant = _variant(use_tma, dict(kwargs))
    if x.requires_grad and torch.is_grad_enabled():
        return forward_only(OP, lambda: _forward(x.detach(), variant), x)
    return _forward(x, variant)


def _variant(use_tma: bool, options: dict[str, Any]) -> str:
    chunked, multi_wave = bool(options.pop("use_chunked", False)), bool(options.pop("use_multi_wave", False))
    refuse_unknown(OP, options)
    if use_tma and chunked:
        raise ValueError(f"{OP}: use_tma and use_chunked exclude each other")
    if multi_wave:
        return "multi_wave"
    return "chunked" if chunked else "tma" if use_tma else "default"


def _forward(x: torch.Tensor, variant: str) -> torch.Tensor:
    inspect(x, "x", OP)
    target = target_of(x, OP, "x")
    pointer = x.data_ptr()
    run = _plan(get_library(), target, x.shape, x.stride(), x.dtype, not pointer & 15, variant)
    out = torch.empty_like(x)
    if run is not None:
        run(out.data_ptr(), pointer)
    return out


@functools.lru_cache(maxsize=PLANS)
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: torch.dtype,
    aligned: bool,
    variant: str,
) -> Callable[..., None] | None:
    if len(shape) != 2:
        raise LaunchError(f"{OP}: x must have 2 dimensions (rows, columns), got shape {tuple(shape)}", rc=-6)
    check_dtype(OP, "x", dtype)
    check_extents("x", OP, shape, strides)
    rows, columns = shape
    if rows == 0 or columns == 0:
        return None
    config = configure(rows, columns, dtype.itemsize, variant)
    tiles = ceil_div(rows, config.rows)
    grid = (min(tiles, config.blocks_per_sm * target.sm_count) if config.blocks_per_sm else tiles, 1, 1)
    metas = (
        TensorMeta(tuple(shape), empty_like_strides(shape, strides), dtype, True),
        TensorMeta(tuple(shape), strides, dtype, aligned),
    )
    hints = {"occupancy": config.occupancy, "num_worker_warps": config.num_worker_warps}
    if config.chunked:
        return bind(library, target, kernels.softmax_long, grid, *metas, BLOCK=config.block, TMA=config.tma, **hints)
    return bind(
        library,
        target,
        kernels.softmax_rows,
        grid,
        *metas,
        ROWS=config.rows,
        BLOCK=config.block,
        TMA=config.tma,
        **hints,
    )


def configure(rows: int, columns: int, itemsize: int, variant: str = "default") -> Config:
    """Return the configuration for a shape; `itemsize` in bytes. Figures: docs/results."""
    block = max(next_power_of_2(columns), 16)
    if variant == "chunked":
        return Config(rows=1, block=min(block, 4096), blocks_per_sm=4, chunked=True)
    if variant == "tma":
        return Config(rows=1, block=block, tma=True, blocks_per_sm=4, occupancy=4, num_worker_warps=_warps(block))
    if variant == "multi_wave":
        return Config(rows=1, block=block, num_worker_warps=_warps(block))
    return Config(rows=1, block=block, occupancy=4, num_worker_warps=_warps(block))


def _warps(block: int) -> int:
    return 4 if block <= 2048 else 8


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for shape (rows, columns), on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
