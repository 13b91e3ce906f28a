# SPDX-License-Identifier: MIT
"""Rows and vectors as kernels over rows take them, and the checks of both."""

from __future__ import annotations

import torch

from ..errors import LaunchError
from ..tensors import TensorMeta
from ..tensors import check_extents
from ._common import as_rows
from ._common import check_dtype


def unit_rows(x: torch.Tensor, op: str, name: str) -> torch.Tensor:
    """Return `x` as (rows, columns) over its last axis, columns next to one another: a view or a contiguous copy."""
    if x.dim() == 0:
        raise LaunchError(f"{op}: {name} has no axis to normalise over (0 dimensions)", rc=-6)
    rows = as_rows(x)
    return rows if rows.stride(1) == 1 or rows.shape[1] == 1 else rows.contiguous()


def row_meta(
    op: str, name: str, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, aligned: bool
) -> TensorMeta:
    """Return the metadata of what `unit_rows` gave; a stride that does not count is the one of contiguous memory.

    Raises:
        LaunchError: a dtype, extent or stride that the kernels cannot take.
    """
    check_dtype(op, name, dtype)
    check_extents(name, op, tuple(shape), tuple(strides))
    rows, columns = shape
    return TensorMeta((rows, columns), (strides[0] if rows > 1 else columns, 1), dtype, aligned)


def vector_meta(
    op: str, name: str, shape: tuple[int, ...], dtype: torch.dtype, aligned: bool, columns: int
) -> TensorMeta:
    """Return the metadata of a contiguous parameter with one element per column.

    Raises:
        ValueError: another number of elements or axes.
        LaunchError: a dtype that the kernels cannot take.
    """
    if tuple(shape) != (columns,):
        raise ValueError(f"{op}: {name} has shape {tuple(shape)}, expected ({columns},): one element per column")
    check_dtype(op, name, dtype)
    return TensorMeta((columns,), (1,), dtype, aligned)
