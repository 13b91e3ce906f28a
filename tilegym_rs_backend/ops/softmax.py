# SPDX-License-Identifier: MIT
"""softmax over the last axis of a 2-D tensor; kernels in `rust/src/ops/softmax.rs`.

TileGym's op `softmax` with its four variants' arguments. Formula: exp(x - max(x)) / sum(exp(x - max(x))) per row, in
f32.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Mapping
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
from ._common import differentiates
from ._common import elements_per_load
from ._common import empty_like_strides
from ._common import forward_only
from ._common import inspect
from ._common import is_contiguous
from ._common import next_power_of_2
from ._common import refuse_unknown

OP = "softmax"
LONGEST_TILE = 32768
"""Columns of the longest row held in one tile."""


@dataclass(frozen=True)
class Config:
    """Which kernel runs a shape, its constants, its grid's first axis, and the hints (0: the compiler's choice)."""

    kernel: str
    constants: Mapping[str, int]
    blocks: int
    occupancy: int = 0
    num_worker_warps: int = 0


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


@functools.lru_cache(maxsize=PLANS)
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
    packed = is_contiguous(shape, strides) and is_contiguous(shape, out_strides)
    config = configure(rows, columns, dtype.itemsize, packed=packed, sm_count=target.sm_count)
    return bind(
        library,
        target,
        config.kernel,
        (config.blocks, 1, 1),
        TensorMeta(tuple(shape), out_strides, dtype, True),
        TensorMeta(tuple(shape), strides, dtype, aligned),
        **config.constants,
        occupancy=config.occupancy,
        num_worker_warps=config.num_worker_warps,
    )


def configure(rows: int, columns: int, itemsize: int, *, packed: bool, sm_count: int) -> Config:
    """Return the configuration for a shape.

    Measured on an H200, f16 (docs/results): for each length of row the fastest of some twenty, TMA, chunks and one
    tile per block among them. `itemsize` in bytes; `packed` says that both tensors are contiguous.
    """
    block = max(next_power_of_2(columns), 16)
    if block > LONGEST_TILE or (not packed and block > 16384):
        constants = {"BLOCK": 8192, "TMA": False}
        return Config(kernels.softmax_long, constants, rows, occupancy=2, num_worker_warps=8)
    if not packed:
        occupancy, warps = (8, 4) if block <= 4096 else (2, 8)
        constants = {"ROWS": 1, "BLOCK": block, "TMA": False}
        blocks = min(rows, occupancy * sm_count)
        return Config(kernels.softmax_rows, constants, blocks, occupancy=occupancy, num_worker_warps=warps)
    tile_rows = max(1, 2048 // block) if block <= 1024 else 1
    while tile_rows > 1 and ceil_div(rows, tile_rows) < 2 * sm_count:
        tile_rows //= 2  # few rows: more blocks are worth more than full tiles
    constants = {
        "ROWS": tile_rows,
        "BLOCK": block,
        "ALIGN": elements_per_load(columns, itemsize),
        "EXACT": columns == block and rows % tile_rows == 0,
    }
    return Config(
        kernels.softmax_packed,
        constants,
        ceil_div(rows, tile_rows),
        occupancy={16384: 2, 32768: 1}.get(block, 0),
        num_worker_warps=8 if block >= 16384 else 4,
    )


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for shape (rows, columns), on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
