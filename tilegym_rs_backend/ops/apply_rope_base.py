# SPDX-License-Identifier: MIT
"""Rotary position embedding of q and k, in place; kernels in `rust/src/ops/apply_rope_base.rs`.

TileGym's op `apply_rope_base`. Of each head the first R elements are two halves (a, b): they become
(a cos - b sin, b cos + a sin), in f32. The backward pass rotates the gradients back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.autograd.graph import increment_version

from ..errors import LaunchError
from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import TensorMeta
from ..tensors import check_extents
from ..tensors import check_same_device
from ..tune import choose
from ..tune import machine_of
from ._apply_rope_base_space import BACKWARD
from ._apply_rope_base_space import SPACE
from ._apply_rope_base_space import BackwardProblem
from ._apply_rope_base_space import Problem
from ._common import Traits
from ._common import check_dtype
from ._common import differentiates
from ._common import inspect
from ._common import metas
from ._common import traits

OP = "apply_rope_base"


def apply_rope_base(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: torch.Tensor | None = None,
    unsqueeze_dim: int = 1,
    partial_rotary_factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Rotate q and k in place and return both.

    Args:
        q: (B, H, S, D), f32, f16 or bf16, any strides that keep its elements apart.
        k: (B, H_kv, S, D), q's dtype, memory of its own.
        cos: (1 or B, at least S, at least R / 2) or (at least S, at least R / 2), f32, f16 or bf16; the first R / 2
            columns are read.
        sin: as cos.
        position_ids: accepted and not used, as in TileGym: cos and sin hold the positions.
        unsqueeze_dim: as position_ids.
        partial_rotary_factor: below 1, R = int(D * factor) elements of each head are rotated, and cos has R columns;
            else R = D. R is even.

    Returns:
        (q, k); views of them, with the strides that torch gives a view, where it records a gradient or an axis has one
        element, as in TileGym.

    Raises:
        TypeError: not a tensor.
        ValueError: shapes that do not fit.
        LaunchError: another dtype, mixed dtypes or devices, q or k expanded or the same memory, extents or strides
            beyond 32 bits.
    """
    for name, tensor in (("q", q), ("k", k), ("cos", cos), ("sin", sin)):
        inspect(tensor, name, OP)
    if differentiates(q, k, cos, sin):
        found: tuple[torch.Tensor, torch.Tensor] = _Rope.apply(  # type: ignore[no-untyped-call]
            q, k, cos, sin, partial_rotary_factor
        )
        return found
    _rotate(q, k, cos, sin, partial_rotary_factor)
    return _same(q), _same(k)


def _same(x: torch.Tensor) -> torch.Tensor:
    return x.view_as(x) if 1 in x.shape else x


class _Rope(torch.autograd.Function):
    """Saves the tables; q and k themselves are written over, and autograd is told so."""

    @staticmethod
    def forward(
        ctx: Any, q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, factor: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        _rotate(q, k, cos, sin, factor)
        ctx.save_for_backward(cos, sin)
        ctx.factor = factor
        return q, k

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if any(ctx.needs_input_grad[2:4]):
            raise NotImplementedError(f"{OP}: cos and sin have no gradient here (nor in TileGym); detach them")
        cos, sin = ctx.saved_tensors
        grad_q, grad_k = _rotate_back(grads[0].resolve_neg(), grads[1].resolve_neg(), cos, sin, ctx.factor)
        return grad_q, grad_k, None, None, None


def _rotate(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, factor: float) -> None:
    if not q.device == k.device == cos.device == sin.device:
        check_same_device(OP, q=q, k=k, cos=cos, sin=sin)
    target = target_of(q, OP, "q")
    run = _plan(get_library(), target, (traits(q), traits(k), traits(cos), traits(sin)), factor)
    if run is None:
        return
    q_pointer, k_pointer = q.data_ptr(), k.data_ptr()
    if q_pointer == k_pointer and not q.is_meta and q.numel() and k.numel():
        raise LaunchError(f"{OP}: q and k are the same memory, which would be rotated twice; pass k.clone()", rc=-6)
    run(q_pointer, k_pointer, cos.data_ptr(), sin.data_ptr())
    increment_version((q, k))  # so that autograd notices if it had kept what was there


def _rotate_back(
    dq: torch.Tensor, dk: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, factor: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of q and k, contiguous; those given stay as they are."""
    target = target_of(dq, OP, "the gradient of q")
    run = _backward_plan(get_library(), target, (traits(dq), traits(dk), traits(cos), traits(sin)), factor)
    found = [_room(one, factor) for one in (dq, dk)]
    if run is not None:
        run(*(one.data_ptr() for one in (*found, dq, dk, cos, sin)))
    return found[0], found[1]


def _room(grad: torch.Tensor, factor: float) -> torch.Tensor:
    """Return contiguous memory for a rotated gradient, which holds already what is not rotated."""
    if rotary(grad.shape[-1], factor) == grad.shape[-1]:
        return grad.new_empty(grad.shape)
    return grad.clone(memory_format=torch.contiguous_format)


def rotary(width: int, factor: float) -> int:
    """Return how many elements of a head are rotated."""
    return int(width * factor) if factor < 1.0 else width


@planned
def _plan(library: Library, target: Target, given: tuple[Traits, ...], factor: float) -> Callable[..., None] | None:
    q, k, cos, sin = metas(*given)
    for name, meta in (("q", q), ("k", k)):
        if any(stride == 0 and extent > 1 for extent, stride in zip(meta.shape, meta.strides, strict=True)):
            raise LaunchError(f"{OP}: {name} has elements that share memory (an expanded tensor); clone it", rc=-6)
    half, tables = _checked(q, k, cos, sin, factor)
    if half == 0:
        return None
    problem = Problem(q, k, *tables, half)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


@planned
def _backward_plan(
    library: Library, target: Target, given: tuple[Traits, ...], factor: float
) -> Callable[..., None] | None:
    dq, dk, cos, sin = metas(*given)
    half, tables = _checked(dq, dk, cos, sin, factor)
    if half == 0:
        return None
    problem = BackwardProblem(dq, dk, *tables, half)
    config = choose(BACKWARD, problem, library, target)
    return BACKWARD.launch(problem, config, machine_of(target)).bind(library, target)


def _checked(
    q: TensorMeta, k: TensorMeta, cos: TensorMeta, sin: TensorMeta, factor: float
) -> tuple[int, tuple[TensorMeta, TensorMeta]]:
    """Return the half of what is rotated of a head, 0 where there is nothing, and the tables as (B, S, columns)."""
    for name, meta in (("q", q), ("k", k)):
        if len(meta.shape) != 4:
            raise ValueError(f"{OP}: {name} must have 4 dimensions (B, H, S, D), got shape {meta.shape}")
        check_extents(name, OP, meta.shape, meta.strides)
        check_dtype(OP, name, meta.dtype)
    (batches, heads, positions, width), kv_heads = q.shape, k.shape[1]
    if (batches, positions, width) != (k.shape[0], *k.shape[2:]):
        raise ValueError(f"{OP}: q {q.shape} and k {k.shape} differ in more than heads")
    for name, meta, first in (("k", k, q), ("sin", sin, cos)):
        if meta.dtype != first.dtype:
            raise LaunchError(f"{OP}: {name} is {meta.dtype}, but its partner {first.dtype}; convert one", rc=-2)
    turned = rotary(width, factor)
    if turned % 2:
        raise ValueError(f"{OP}: {turned} elements of a head were to be rotated, which has no halves")
    if factor < 1.0 and cos.shape[-1] != turned:
        raise ValueError(
            f"{OP}: cos has {cos.shape[-1]} columns, expected int(D * partial_rotary_factor) = "
            f"int({width} * {factor}) = {turned}"
        )
    tables = (_table("cos", cos, q, turned // 2), _table("sin", sin, q, turned // 2))
    empty = 0 in (batches, positions) or heads == kv_heads == 0
    return 0 if empty else turned // 2, tables


def _table(name: str, table: TensorMeta, q: TensorMeta, half: int) -> TensorMeta:
    """Return a table as (B, S, columns); one for all batches is repeated without memory."""
    check_dtype(OP, name, table.dtype)
    shape, strides = table.shape, table.strides
    if len(shape) == 2:
        shape, strides = (1, *shape), (0, *strides)
    batches, _, positions, _ = q.shape
    if len(shape) != 3 or shape[0] not in (1, batches) or shape[1] < positions or shape[2] < half:
        raise ValueError(
            f"{OP}: {name} has shape {table.shape}; expected (1 or {batches}, {positions}, at least {half}), or "
            f"without the first axis"
        )
    check_extents(name, OP, shape, strides)
    if shape[0] == 1:
        strides = (0, *strides[1:])
    return TensorMeta((batches, *shape[1:]), tuple(strides), table.dtype, table.aligned)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for shape (B, H, H_kv, S, D) or (B, H, H_kv, S, D, R), on the meta device.

    As a model has them: heads inside of positions in memory, tables of each batch.
    """
    if len(shape) not in (5, 6):
        raise ValueError(f"{OP}: a shape is B, H, H_kv, S, D (BxHxH_kvxSxD), and R where not all of D, got {shape}")
    b, h, h_kv, s, d, r = (*shape, shape[4])[:6]
    q, k = (torch.empty((b, s, heads, d), dtype=dtype, device="meta").transpose(1, 2) for heads in (h, h_kv))
    cos, sin = (torch.empty((b, s, r), dtype=dtype, device="meta") for _ in range(2))
    return q, k, cos, sin, None, 1, r / d
