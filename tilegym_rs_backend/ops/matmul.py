# SPDX-License-Identifier: MIT
"""op(a) @ op(b); kernels in `rust/src/ops/matmul.rs`.

TileGym's op `matmul`: f32 accumulation, result in a's dtype; f32 inputs are rounded to tf32, as there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from typing import NamedTuple

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
from ..tensors import check_same_device
from ._common import ceil_div
from ._common import check_dtype
from ._common import contiguous_meta
from ._common import differentiates
from ._common import inspect

OP = "matmul"


@dataclass(frozen=True)
class Config:
    """Tile extents along M, N and K, rows of tiles that share a column sweep (swizzle), load latency, hints.

    A latency above 0 asks for the persistent kernel: one block per multiprocessor, striding over the tiles.
    """

    bm: int
    bn: int
    bk: int
    group: int = 8
    latency: int = 0
    occupancy: int = 0
    num_worker_warps: int = 0


class _Operand(NamedTuple):
    """A stored matrix and whether it is read transposed; hashable."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    aligned: bool
    transposed: bool


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool = False,
    trans_b: bool = False,
    static_persistent: bool | None = None,
    use_tma: bool | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """Return op(a) @ op(b), where op transposes if the flag says so.

    Args:
        a: (M, K), or (K, M) with `trans_a`; f32, f16 or bf16; any strides.
        b: (K, N), or (N, K) with `trans_b`; same dtype.
        trans_a, trans_b: read the operand transposed.
        static_persistent, use_tma: TileGym's choice of schedule and loads; accepted, and without effect on the
            result: one kernel, configured by shape, serves all.
        kwargs: further TileGym options (``kernel_configs``), accepted and ignored likewise.

    Returns:
        (M, N), contiguous, a's dtype; differentiable any number of times, with the same kernels.

    Raises:
        TypeError: not a tensor.
        ValueError: ranks or inner extents that do not fit.
        LaunchError: another dtype, mixed dtypes or devices, extents or strides beyond 32 bits.
    """
    inspect(a, "a", OP)
    inspect(b, "b", OP)
    if differentiates(a, b):
        result: torch.Tensor = _Matmul.apply(a, b, bool(trans_a), bool(trans_b))  # type: ignore[no-untyped-call]
        return result
    return _forward(a, b, bool(trans_a), bool(trans_b))


class _Matmul(torch.autograd.Function):
    """Products again: with c = op(a) @ op(b), the gradients are g @ op(b)^T and op(a)^T @ g, stored as a and b are.

    TileGym's cuTile matmul has no backward: its result does not ask for a gradient.
    """

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, trans_a: bool, trans_b: bool) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.flags = (trans_a, trans_b)
        return _forward(a, b, trans_a, trans_b)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None, None, None]:
        a, b = ctx.saved_tensors
        trans_a, trans_b = ctx.flags
        g = grads[0].resolve_neg()
        grad_a = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_a = matmul(b, g, trans_b, True) if trans_a else matmul(g, b, False, not trans_b)
        if ctx.needs_input_grad[1]:
            grad_b = matmul(g, a, True, trans_a) if trans_b else matmul(a, g, not trans_a, False)
        return grad_a, grad_b, None, None


def _forward(a: torch.Tensor, b: torch.Tensor, trans_a: bool, trans_b: bool) -> torch.Tensor:
    if a.device != b.device:
        check_same_device(OP, a=a, b=b)
    target = target_of(a, OP, "a")
    pointer_a, pointer_b = a.data_ptr(), b.data_ptr()
    shape, run = _plan(
        get_library(),
        target,
        _Operand(a.shape, a.stride(), not pointer_a & 15, trans_a),
        _Operand(b.shape, b.stride(), not pointer_b & 15, trans_b),
        a.dtype,
        b.dtype,
    )
    if run is None:  # an empty product is empty, or zero where only K is
        return a.new_zeros(shape)
    c = a.new_empty(shape)
    run(c.data_ptr(), pointer_a, pointer_b)
    return c


@functools.lru_cache(maxsize=PLANS)
def _plan(
    library: Library, target: Target, a: _Operand, b: _Operand, dtype: torch.dtype, dtype_b: torch.dtype
) -> tuple[tuple[int, int], Callable[..., None] | None]:
    for name, operand in (("a", a), ("b", b)):
        if len(operand.shape) != 2:
            raise ValueError(f"{OP}: {name} must have 2 dimensions, got shape {tuple(operand.shape)}")
        check_extents(name, OP, operand.shape, operand.strides)
    check_dtype(OP, "a", dtype)
    if dtype != dtype_b:
        raise LaunchError(f"{OP}: a is {dtype} but b is {dtype_b}; convert one of them", rc=-2)
    m, k = a.shape[::-1] if a.transposed else a.shape
    n, k_b = b.shape if b.transposed else b.shape[::-1]
    if k != k_b:
        raise ValueError(f"{OP}: the inner extents differ: K is {k} in a and {k_b} in b")
    if m == 0 or n == 0 or k == 0:
        return (m, n), None
    a, b = _row_major(a), _row_major(b)
    config = configure(m, n, k, dtype, target.sm_count)
    tiles = ceil_div(m, config.bm) * ceil_div(n, config.bn)
    constants = {"BM": config.bm, "BN": config.bn, "BK": config.bk, "GROUP": config.group}
    if config.latency:
        kernel, blocks = kernels.matmul_persistent, min(tiles, target.sm_count * max(config.occupancy, 1))
        constants["LATENCY"] = config.latency
    else:
        kernel = kernels.matmul_tile_tf32 if dtype == torch.float32 else kernels.matmul_tile
        blocks = tiles
    run = bind(
        library,
        target,
        kernel,
        (blocks, 1, 1),
        contiguous_meta((m, n), dtype),
        TensorMeta(tuple(a.shape), tuple(a.strides), dtype, a.aligned),
        TensorMeta(tuple(b.shape), tuple(b.strides), dtype, b.aligned),
        **constants,
        TRANS_A=a.transposed,
        TRANS_B=b.transposed,
        occupancy=config.occupancy,
        num_worker_warps=config.num_worker_warps,
    )
    return (m, n), run


def _row_major(operand: _Operand) -> _Operand:
    """See a column-major matrix (`x.t()`) as its transpose with the flag flipped: then its unit stride comes last."""
    if operand.strides[1] != 1 and operand.strides[0] == 1:
        return _Operand(operand.shape[::-1], operand.strides[::-1], operand.aligned, not operand.transposed)
    return operand


def configure(m: int, n: int, k: int, dtype: torch.dtype, sm_count: int) -> Config:
    """Return the configuration for a shape, as measured on an H200 (docs/results)."""
    large = ceil_div(m, 128) * ceil_div(n, 256) >= 0.9 * sm_count
    if dtype == torch.float32:
        if large:
            return Config(128, 256, 32, occupancy=1, num_worker_warps=8)
        return Config(64, 128, 32, occupancy=1, num_worker_warps=4)
    if large:
        return Config(128, 256, 64, group=16, latency=6, occupancy=1, num_worker_warps=8)
    if ceil_div(m, 64) * ceil_div(n, 64) <= sm_count:
        return Config(64, 64, 64, num_worker_warps=4)
    return Config(64, 64, 128, occupancy=2, num_worker_warps=4)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for shape (M, N, K), on the meta device."""
    if len(shape) != 3:
        raise ValueError(f"{OP}: a shape is M, N, K (MxNxK), got {tuple(shape)}")
    m, n, k = shape
    return (torch.empty((m, k), dtype=dtype, device="meta"), torch.empty((k, n), dtype=dtype, device="meta"))
