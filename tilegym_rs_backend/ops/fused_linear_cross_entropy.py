# SPDX-License-Identifier: MIT
"""Cross entropy of a linear layer without all of its logits; kernels in `rust/src/ops/fused_linear_cross_entropy.rs`.

TileGym's op `fused_linear_cross_entropy`, forward only: log(sum(exp(x W^T))) - (x W^T)[target] per row. The product is
torch's, a chunk of rows at a time, rounded to the inputs' dtype; the rest is computed in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from ..errors import LaunchError
from ..launch import bind
from ..launch import kernels
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
from ._fused_linear_cross_entropy_space import SPACE
from ._fused_linear_cross_entropy_space import Problem

OP = "fused_linear_cross_entropy"
_REDUCTIONS = ("mean", "sum")
_TOTAL_BLOCK = 1024


def fused_linear_cross_entropy(
    hidden_states: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    bias: torch.Tensor | None = None,
    ignore_index: int = -100,
    chunk_size: int = 4096,
    reduction: str = "mean",
) -> torch.Tensor:
    """Return the cross entropy of hidden_states @ weight^T against targets.

    Args:
        hidden_states: (rows, K) or (batch, length, K), f32, f16 or bf16.
        weight: (V, K), the same dtype.
        target: rows, or (batch, length), integers. One below 0 counts as 0, one of V or more makes its loss NaN.
        bias: (V); with one, plain PyTorch computes it all, with all logits and in the inputs' dtype, as in TileGym.
        ignore_index: a target that costs nothing and does not count.
        chunk_size: rows whose logits are there at a time.
        reduction: ``"mean"``, over the targets that count, 0 if none does; ``"sum"``.

    Returns:
        A scalar in f32 (with a bias, of the inputs' dtype).

    Raises:
        TypeError: not a tensor.
        ValueError: another reduction, a chunk without rows, shapes that do not fit.
        LaunchError: another dtype, mixed dtypes or devices, extents beyond 32 bits.
        NotImplementedError: in the backward pass; there is none but with a bias.
    """
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{OP}: unsupported reduction {reduction!r}; there are: {', '.join(_REDUCTIONS)}")
    if chunk_size < 1:
        raise ValueError(f"{OP}: chunk_size is {chunk_size}; a chunk has at least one row")
    for name, tensor in (("hidden_states", hidden_states), ("weight", weight), ("target", target)):
        inspect(tensor, name, OP)
    if hidden_states.dim() == 3:
        hidden_states = hidden_states.reshape(-1, hidden_states.shape[-1])
    target = target.reshape(-1)
    if bias is not None:
        logits = functional.linear(hidden_states, weight, bias)
        return functional.cross_entropy(logits, target, ignore_index=ignore_index, reduction=reduction)
    _check(hidden_states, weight, target)
    mean = reduction == "mean"
    if differentiates(hidden_states, weight):
        x, w = hidden_states.detach(), weight.detach()
        return forward_only(OP, lambda: _forward(x, w, target, ignore_index, chunk_size, mean), hidden_states, weight)
    return _forward(hidden_states, weight, target, ignore_index, chunk_size, mean)


def _check(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    check_same_device(OP, hidden_states=x, weight=weight, target=target)
    check_dtype(OP, "hidden_states", x.dtype)
    if weight.dtype != x.dtype:
        raise LaunchError(f"{OP}: hidden_states is {x.dtype} but weight {weight.dtype}; convert one", rc=-2)
    if target.dtype.is_floating_point or target.dtype.is_complex or target.dtype == torch.bool:
        raise LaunchError(f"{OP}: target has dtype {target.dtype}; targets are integers", rc=-2)
    if x.dim() != 2 or weight.dim() != 2 or weight.shape[1] != x.shape[1] or target.shape[0] != x.shape[0]:
        raise ValueError(
            f"{OP}: hidden_states {tuple(x.shape)}, weight {tuple(weight.shape)} and {target.shape[0]} targets do not "
            "fit: expected (rows, K) or (batch, length, K), (V, K) and a target per row"
        )
    for name, tensor in (("hidden_states", x), ("weight", weight)):
        check_extents(name, OP, tensor.shape, tensor.stride())
    if weight.shape[0] == 0:
        raise ValueError(f"{OP}: weight has no rows, and a target has to be one of them")


def _forward(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignored: int, chunk: int, mean: bool
) -> torch.Tensor:
    rows, width = x.shape[0], weight.shape[0]
    out = x.new_empty((), dtype=torch.float32)
    if rows == 0:
        return out.zero_()
    target = target.to(torch.int64)
    library, where = get_library(), target_of(x, OP, "hidden_states")
    losses = x.new_empty(rows, dtype=torch.float32)
    vector = 16 // x.element_size()
    # Rows of logits begin at multiples of 16 bytes, whatever their length.
    memory = x.new_empty((min(chunk, rows), -(-width // vector) * vector))
    for first in range(0, rows, chunk):
        some = slice(first, first + chunk)
        x_rows, loss, aim = x[some], losses[some], target[some]
        logits = memory[: x_rows.shape[0], :width]
        torch.mm(x_rows, weight.mT, out=logits)
        run = _plan(library, where, meta_of(loss), meta_of(logits), meta_of(aim), ignored)
        run(loss.data_ptr(), logits.data_ptr(), aim.data_ptr())
    total = _total_plan(library, where, meta_of(losses), meta_of(target), ignored, mean)
    total(out.data_ptr(), losses.data_ptr(), target.data_ptr())
    return out


@planned
def _plan(
    library: Library, where: Target, loss: TensorMeta, logits: TensorMeta, target: TensorMeta, ignored: int
) -> Callable[..., None]:
    check_extents("the logits", OP, logits.shape, logits.strides)
    problem = Problem(loss, logits, target, ignored)
    config = choose(SPACE, problem, library, where)
    return SPACE.launch(problem, config, machine_of(where)).bind(library, where)


@planned
def _total_plan(
    library: Library, where: Target, loss: TensorMeta, target: TensorMeta, ignored: int, mean: bool
) -> Callable[..., None]:
    out = TensorMeta((1,), (1,), torch.float32, True)
    return bind(
        library,
        where,
        kernels.cross_entropy_total,
        (1, 1, 1),
        out,
        loss,
        target,
        ignored,
        BLOCK=_TOTAL_BLOCK,
        MEAN=int(mean),
        num_worker_warps=8,
    )


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's tensors for shape (rows, K, V), on the meta device."""
    if len(shape) != 3:
        raise ValueError(f"{OP}: a shape is rows, K, V (rowsxKxV), got {shape}")
    rows, hidden, width = shape
    x, weight = (torch.empty((extent, hidden), dtype=dtype, device="meta") for extent in (rows, width))
    return x, weight, torch.empty(rows, dtype=torch.int64, device="meta")
