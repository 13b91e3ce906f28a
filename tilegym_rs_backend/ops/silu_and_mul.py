# SPDX-License-Identifier: MIT
"""silu(first half) * second half of the last axis; kernels in `rust/src/ops/silu_and_mul.rs`.

TileGym's op `silu_and_mul`. With x = [a | b] along the last axis: a / (1 + exp(-a)) * b, in f32. Backward, with the
gradient g of the result and s = 1 / (1 + exp(-a)): da = g * b * (s + a * s * (1 - s)), db = g * a * s.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version

from ..launch import PLANS
from ..launch import bind
from ..launch import kernels
from ..library import Library
from ..library import get_library
from ..target import Target
from ..target import target_of
from ..tensors import TensorMeta
from ..tensors import check_extents
from ..tensors import check_same_device
from ._common import as_rows
from ._common import ceil_div
from ._common import check_dtype
from ._common import check_out
from ._common import check_overlap
from ._common import contiguous_meta
from ._common import differentiates
from ._common import elements_per_load
from ._common import inspect
from ._common import is_contiguous
from ._common import next_power_of_2

OP = "silu_and_mul"


@dataclass(frozen=True)
class Config:
    """Which kernel runs a shape, its constants, its grid, and the hints (0: the compiler's choice)."""

    kernel: str
    constants: Mapping[str, int]
    grid: tuple[int, int, int]
    num_cta_in_cga: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0


def silu_and_mul(input: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """Return silu(input[..., :H]) * input[..., H:] for an input of shape (..., 2H).

    Args:
        input: f32, f16 or bf16, any strides (one that is no view of rows is copied first).
        out: receives the result in place and is returned; shape (..., H), same dtype and device, any strides.

    Returns:
        Shape (..., H), contiguous unless `out` is given. NaN propagates; a = -inf gives NaN (-inf * 0), as in torch.

    Raises:
        TypeError: not a tensor.
        ValueError: an odd last axis, an `out` of another shape, or `out` with a gradient asked for (as in TileGym).
        LaunchError: another dtype, mixed devices, an out that shares elements with the input and is none of its
            halves, extents beyond 32 bits.
    """
    inspect(input, "input", OP)
    if out is not None:
        inspect(out, "out", OP)
        if differentiates(input, out):
            raise ValueError(f"{OP}: out= does not go with a gradient; call it under torch.no_grad()")
    elif differentiates(input):
        result: torch.Tensor = _SiluAndMul.apply(input)  # type: ignore[no-untyped-call]
        return result
    return _forward(input, out)


class _SiluAndMul(torch.autograd.Function):
    """Saves the input alone; the backward kernel computes the sigmoid again."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return _forward(x, None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return _backward(grads[0].resolve_neg(), x)


def _forward(x: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
    hidden, shape = _shapes(x)
    rows = as_rows(x)
    target = target_of(rows, OP, "input")
    if out is None:
        result = x.new_empty(shape)
        flat_shape: tuple[int, ...] = (rows.shape[0], hidden)
        flat_strides: tuple[int, ...] = (hidden, 1)
        back = None
    else:
        check_same_device(OP, input=x, out=out)
        check_out(OP, out, x, shape)
        result = out
        back = as_rows(out)
        flat_shape, flat_strides = back.shape, back.stride()
    pointer, out_pointer = rows.data_ptr(), (result if back is None else back).data_ptr()
    run = _plan(
        get_library(),
        target,
        rows.shape,
        rows.stride(),
        x.dtype,
        not pointer & 15,
        flat_shape,
        flat_strides,
        not out_pointer & 15,
    )
    if run is not None:
        if back is not None:
            check_overlap(OP, rows, back)
        run(out_pointer, pointer)
        if back is not None and back.data_ptr() != out.data_ptr():  # type: ignore[union-attr]
            result.copy_(back.view(shape))
        elif back is not None:
            increment_version(result)  # so that autograd notices if it had kept what was there
    return result


def _backward(grad: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    rows, grad_rows = as_rows(x), as_rows(grad)
    target = target_of(rows, OP, "input")
    grad_x = x.new_empty(x.shape)
    pointer, grad_pointer = rows.data_ptr(), grad_rows.data_ptr()
    run = _backward_plan(
        get_library(),
        target,
        rows.shape,
        rows.stride(),
        x.dtype,
        not pointer & 15,
        grad_rows.stride(),
        not grad_pointer & 15,
    )
    if run is not None:
        run(grad_x.data_ptr(), grad_pointer, pointer)
    return grad_x


def _shapes(x: torch.Tensor) -> tuple[int, tuple[int, ...]]:
    """Return H and the result's shape."""
    if x.dim() == 0 or x.shape[-1] % 2:
        raise ValueError(f"{OP}: the last axis must hold both halves (an even extent), got shape {tuple(x.shape)}")
    hidden = x.shape[-1] // 2
    return hidden, (*x.shape[:-1], hidden)


@functools.lru_cache(maxsize=PLANS)
def _plan(
    library: Library,
    target: Target,
    shape: tuple[int, int],
    strides: tuple[int, int],
    dtype: torch.dtype,
    aligned: bool,
    out_shape: tuple[int, ...],
    out_strides: tuple[int, ...],
    out_aligned: bool,
) -> Callable[..., None] | None:
    halves = _halves(shape, strides, dtype, aligned)
    if halves is None:
        return None
    check_extents("out", OP, out_shape, out_strides)
    rows, hidden = out_shape
    packed = is_contiguous(shape, strides) and is_contiguous(out_shape, out_strides)
    config = configure(rows, hidden, dtype.itemsize, packed=packed, sm_count=target.sm_count)
    return bind(
        library,
        target,
        config.kernel,
        config.grid,
        TensorMeta(tuple(out_shape), tuple(out_strides), dtype, out_aligned),
        halves,
        **config.constants,
        num_cta_in_cga=config.num_cta_in_cga,
        occupancy=config.occupancy,
        num_worker_warps=config.num_worker_warps,
    )


@functools.lru_cache(maxsize=PLANS)
def _backward_plan(
    library: Library,
    target: Target,
    shape: tuple[int, int],
    strides: tuple[int, int],
    dtype: torch.dtype,
    aligned: bool,
    grad_strides: tuple[int, int],
    grad_aligned: bool,
) -> Callable[..., None] | None:
    halves = _halves(shape, strides, dtype, aligned)
    if halves is None:
        return None
    rows, _, hidden = halves.shape
    check_extents("the gradient", OP, (rows, hidden), grad_strides)
    cols = min(max(next_power_of_2(hidden), 16), 512)
    return bind(
        library,
        target,
        kernels.silu_and_mul_backward,
        _flat_grid(rows * ceil_div(hidden, cols)),
        contiguous_meta((rows, 2, hidden), dtype),
        TensorMeta((rows, hidden), tuple(grad_strides), dtype, grad_aligned),
        halves,
        ROWS=1,
        COLS=cols,
        num_worker_warps=4,
    )


def _halves(shape: tuple[int, int], strides: tuple[int, int], dtype: torch.dtype, aligned: bool) -> TensorMeta | None:
    """Return the input seen as (rows, 2, H), None when there is nothing to compute."""
    check_dtype(OP, "input", dtype)
    check_extents("input", OP, shape, strides)
    rows, hidden = shape[0], shape[1] // 2
    if rows == 0 or hidden == 0:
        return None
    halves = TensorMeta((rows, 2, hidden), (strides[0], hidden * strides[1], strides[1]), dtype, aligned)
    check_extents("input", OP, halves.shape, halves.strides)
    return halves


def _flat_grid(tiles: int) -> tuple[int, int, int]:
    """Return a grid for the kernels that number their tiles and stride by the grid."""
    return (min(tiles, 2**31 - 1), 1, 1)


def configure(rows: int, hidden: int, itemsize: int, *, packed: bool, sm_count: int) -> Config:
    """Return the configuration for a shape, as measured on an H200 (docs/results).

    `itemsize` in bytes; `packed` says that input and output are contiguous.
    """
    block = max(next_power_of_2(hidden), 16)
    if not packed:
        cols = min(block, 512)
        constants = {"ROWS": 1, "COLS": cols, "TMA": False}
        return Config(
            kernels.silu_and_mul_tile, constants, _flat_grid(rows * ceil_div(hidden, cols)), num_worker_warps=4
        )
    tile_rows, cols, warps = _tile(rows, block, itemsize, sm_count)
    row_tiles = ceil_div(rows, tile_rows)
    whole = cols >= hidden
    if whole:
        grid = (row_tiles, 1, 1)
    elif row_tiles <= 65535:
        grid = (ceil_div(hidden, cols), row_tiles, 1)
    else:  # the grid's second axis ends at 65535, so many rows take the third one too
        grid = (ceil_div(hidden, cols), 32768, ceil_div(row_tiles, 32768))
    covered = tile_rows * (grid[0] if whole else grid[1] * grid[2])
    constants = {
        "ROWS": tile_rows,
        "COLS": cols,
        "ALIGN": elements_per_load(hidden, itemsize),
        "WHOLE": whole,
        "EXACT": hidden % cols == 0 and covered == rows,
    }
    return Config(kernels.silu_and_mul_packed, constants, grid, num_worker_warps=warps)


def _tile(rows: int, block: int, itemsize: int, sm_count: int) -> tuple[int, int, int]:
    """Return rows and columns of a tile and worker warps; `block` is H rounded up to a power of two."""
    many = 4 * sm_count
    if block == 1024:
        return (1, 1024, 4 if itemsize == 2 and rows >= many else 8)
    cols = min(block, 512)
    tile_rows = (2048 // itemsize) // cols
    while tile_rows > 1 and ceil_div(rows, tile_rows) < many:
        tile_rows //= 2  # few rows: more blocks are worth more than full tiles
    return (tile_rows, cols, 4)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for the input's shape (..., 2H), on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
