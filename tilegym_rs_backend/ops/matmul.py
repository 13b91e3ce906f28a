# SPDX-License-Identifier: MIT
"""op(a) @ op(b); kernels in `rust/src/ops/matmul.rs`.

TileGym's op `matmul`: f32 accumulation, result in a's dtype; f32 inputs are rounded to tf32, as there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
from ._common import FP8
from ._common import HALF_OR_SINGLE
from ._common import check_dtype
from ._common import differentiates
from ._common import inspect
from ._matmul_space import SPACE
from ._matmul_space import Operand
from ._matmul_space import Problem

OP = "matmul"


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
        a: (M, K), or (K, M) with `trans_a`; f32, f16, bf16, float8_e4m3fn or float8_e5m2; any strides.
        b: (K, N), or (N, K) with `trans_b`; same dtype.
        trans_a, trans_b: read the operand transposed.
        static_persistent, use_tma: TileGym's choice of schedule and loads; accepted, and without effect on the
            result: the configuration measured fastest for the shape, or the default, runs.
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
        Operand(a.shape, a.stride(), not pointer_a & 15, trans_a),
        Operand(b.shape, b.stride(), not pointer_b & 15, trans_b),
        a.dtype,
        b.dtype,
    )
    if run is None:  # an empty product is empty, or zero where only K is
        return a.new_zeros(shape)
    c = a.new_empty(shape)
    run(c.data_ptr(), pointer_a, pointer_b)
    return c


@planned
def _plan(
    library: Library, target: Target, a: Operand, b: Operand, dtype: torch.dtype, dtype_b: torch.dtype
) -> tuple[tuple[int, int], Callable[..., None] | None]:
    for name, operand in (("a", a), ("b", b)):
        if len(operand.shape) != 2:
            raise ValueError(f"{OP}: {name} must have 2 dimensions, got shape {tuple(operand.shape)}")
        check_extents(name, OP, operand.shape, operand.strides)
    check_dtype(OP, "a", dtype, (*HALF_OR_SINGLE, *FP8))
    if dtype != dtype_b:
        raise LaunchError(f"{OP}: a is {dtype} but b is {dtype_b}; convert one of them", rc=-2)
    m, k = a.shape[::-1] if a.transposed else a.shape
    n, k_b = b.shape if b.transposed else b.shape[::-1]
    if k != k_b:
        raise ValueError(f"{OP}: the inner extents differ: K is {k} in a and {k_b} in b")
    if m == 0 or n == 0 or k == 0:
        return (m, n), None
    a, b = _row_major(a), _row_major(b)
    problem = Problem(m, n, k, a, b, dtype)
    config = choose(SPACE, problem, library, target)
    return (m, n), SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def _row_major(operand: Operand) -> Operand:
    """See a column-major matrix (`x.t()`) as its transpose with the flag flipped: then its unit stride comes last."""
    if operand.strides[1] != 1 and operand.strides[0] == 1:
        return Operand(operand.shape[::-1], operand.strides[::-1], operand.aligned, not operand.transposed)
    return operand


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for shape (M, N, K), on the meta device."""
    if len(shape) != 3:
        raise ValueError(f"{OP}: a shape is M, N, K (MxNxK), got {tuple(shape)}")
    m, n, k = shape
    return (torch.empty((m, k), dtype=dtype, device="meta"), torch.empty((k, n), dtype=dtype, device="meta"))
