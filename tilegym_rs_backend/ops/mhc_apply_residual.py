# SPDX-License-Identifier: MIT
"""n residual streams mixed and added to; the kernel is in `rust/src/ops/mhc_apply_residual.rs`.

TileGym's op `mhc_apply_residual`: out_i = sum over j of h[i, j] x_j, plus g[i] f_out, in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

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
from ._common import Traits
from ._common import check_dtype
from ._common import contiguous_meta
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._common import metas
from ._common import traits
from ._mhc_apply_residual_space import SPACE
from ._mhc_apply_residual_space import Problem

OP = "mhc_apply_residual"
LARGEST = 64


def mhc_apply_residual(x: torch.Tensor, f_out: torch.Tensor, y: torch.Tensor, n: int, **kwargs: Any) -> torch.Tensor:
    """Return the mixed streams.

    Args:
        x: (rows, n * C), n streams side by side, f32, f16 or bf16; one that is not contiguous is copied first, as are
            the others.
        f_out: (rows, C), f32, f16 or bf16.
        y: (rows, at least 2 n + n * n) coefficients, f32, f16 or bf16: g in columns n to 2 n, h row by row from 2 n on.
        n: streams, at most 64. Neither n nor C has to be a power of two (TileGym's kernel needs C a multiple of 1024).
        kwargs: further TileGym options, accepted and without effect.

    Returns:
        x's shape and dtype, contiguous. A NaN or inf reaches its column in every stream of its row.

    Raises:
        TypeError: not a tensor.
        ValueError: shapes that do not fit.
        LaunchError: another dtype, mixed devices, extents beyond 32 bits.
    """
    for name, tensor in (("x", x), ("f_out", f_out), ("y", y)):
        inspect(tensor, name, OP)
    if differentiates(x, f_out, y):
        detached = (x.detach(), f_out.detach(), y.detach())
        return forward_only(OP, lambda: _mix(*detached, n), x, f_out, y)
    return _mix(x, f_out, y, n)


def _mix(x: torch.Tensor, f_out: torch.Tensor, y: torch.Tensor, n: int) -> torch.Tensor:
    if not x.device == f_out.device == y.device:
        check_same_device(OP, x=x, f_out=f_out, y=y)
    x, f_out, y = x.contiguous(), f_out.contiguous(), y.contiguous()
    run = _plan(get_library(), target_of(x, OP, "x"), n, traits(x), traits(f_out), traits(y))
    out = x.new_empty(x.shape)
    if run is not None:
        run(out.data_ptr(), x.data_ptr(), f_out.data_ptr(), y.data_ptr())
    return out


@planned
def _plan(library: Library, target: Target, n: int, *given: Traits) -> Callable[..., None] | None:
    x, f_out, y = metas(*given)
    if not 1 <= n <= LARGEST:
        raise ValueError(f"{OP}: n is {n}; it has to be at least 1 and at most {LARGEST}")
    for name, meta in (("x", x), ("f_out", f_out), ("y", y)):
        if len(meta.shape) != 2:
            raise ValueError(f"{OP}: {name} must have 2 dimensions, got shape {meta.shape}")
        check_dtype(OP, name, meta.dtype)
        check_extents(name, OP, meta.shape, meta.strides)
    rows, width = f_out.shape
    least = 2 * n + n * n
    if x.shape != (rows, n * width) or y.shape[0] != rows or y.shape[1] < least:
        raise ValueError(
            f"{OP}: x {x.shape}, f_out {f_out.shape} and y {y.shape} do not fit n = {n}: expected (rows, n * C), "
            f"(rows, C) and (rows, at least {least})"
        )
    if 0 in f_out.shape:
        return None
    streams = TensorMeta((rows, n, width), (n * width, width, 1), x.dtype, x.aligned)
    check_extents("x", OP, streams.shape, streams.strides)
    problem = Problem(contiguous_meta(streams.shape, x.dtype), streams, f_out, y)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for shape (rows, n, C), on the meta device; coefficients in f32."""
    if len(shape) != 3:
        raise ValueError(f"{OP}: a shape is rows, n, C (rowsxnxC), got {shape}")
    rows, n, width = shape
    x = torch.empty((rows, n * width), dtype=dtype, device="meta")
    f_out = torch.empty((rows, width), dtype=dtype, device="meta")
    return x, f_out, torch.empty((rows, 2 * n + n * n), dtype=torch.float32, device="meta"), n
