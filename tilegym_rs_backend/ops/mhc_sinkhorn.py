# SPDX-License-Identifier: MIT
"""n x n blocks made doubly stochastic in place; the kernel is in `rust/src/ops/mhc_sinkhorn.rs`.

TileGym's op `mhc_sinkhorn`: exp, then 20 rounds of dividing each row by its sum and each column by its sum, in f32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import increment_version

from ..library import Library
from ..library import get_library
from ..plans import planned
from ..target import Target
from ..target import target_of
from ..tensors import check_extents
from ..tune import choose
from ..tune import machine_of
from ._common import Traits
from ._common import check_dtype
from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._common import metas
from ._common import traits
from ._mhc_sinkhorn_space import LARGEST
from ._mhc_sinkhorn_space import SPACE
from ._mhc_sinkhorn_space import Problem

OP = "mhc_sinkhorn"


def mhc_sinkhorn(y: torch.Tensor, n: int, **kwargs: Any) -> torch.Tensor:
    """Normalise columns 2 n to 2 n + n * n of each row of y, read as an n x n block, and return y.

    Args:
        y: (rows, at least 2 n + n * n), f32, f16 or bf16. In place if it is contiguous; otherwise y stays and a
            contiguous copy is returned, as in TileGym.
        n: a power of two, at most 32.
        kwargs: further TileGym options, accepted and without effect.

    Returns:
        y. A block with a NaN, or with exponentials beyond f32, is NaN.

    Raises:
        TypeError: not a tensor.
        ValueError: another rank, too few columns, another n.
        LaunchError: another dtype, extents beyond 32 bits.
    """
    inspect(y, "y", OP)
    if differentiates(y):
        return forward_only(OP, lambda: _normalise(y.detach(), n), y)
    return _normalise(y, n)


def _normalise(y: torch.Tensor, n: int) -> torch.Tensor:
    y = y.contiguous()
    run = _plan(get_library(), target_of(y, OP, "y"), n, traits(y))
    if run is not None:
        run(y.data_ptr())
        increment_version(y)  # so that autograd notices if it had kept what was there
    return y


@planned
def _plan(library: Library, target: Target, n: int, given: Traits) -> Callable[..., None] | None:
    (y,) = metas(given)
    check_dtype(OP, "y", y.dtype)
    if n < 1 or n & (n - 1) or n > LARGEST:
        raise ValueError(f"{OP}: n is {n}; it has to be a power of two and at most {LARGEST}")
    if len(y.shape) != 2 or y.shape[1] < 2 * n + n * n:
        raise ValueError(f"{OP}: y has shape {y.shape}; expected (rows, at least 2 n + n * n = {2 * n + n * n})")
    check_extents("y", OP, y.shape, y.strides)
    if y.shape[0] == 0:
        return None
    problem = Problem(y, n)
    config = choose(SPACE, problem, library, target)
    return SPACE.launch(problem, config, machine_of(target)).bind(library, target)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments for shape (rows, n), on the meta device."""
    if len(shape) != 2:
        raise ValueError(f"{OP}: a shape is rows, n (rowsxn), got {shape}")
    rows, n = shape
    return torch.empty((rows, 2 * n + n * n), dtype=dtype, device="meta"), n
