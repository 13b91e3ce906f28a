# SPDX-License-Identifier: MIT
"""A launch's arguments in the forms that a translated kernel takes: descriptors, parts of them, tables of lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from ..tensors import MAX_RANK
from ..tensors import TensorMeta
from ..tensors import meta_of
from ..tensors import torch_dtype

if TYPE_CHECKING:
    from .capture import CapturedLaunch

_HINTS = {"num_ctas": "num_cta_in_cga", "occupancy": "occupancy", "num_worker_warps": "num_worker_warps"}
ADDRESSES = ("tensor", "pointer", "list")
"""Kinds of parameters that are given an address at the launch."""


def argument(value: Any, kind: str, axis: int) -> Any:
    """Return what `bind` is given for one parameter of a kind (see `translate.parameters.Parameter`)."""
    if kind == "list":
        words = len(value) * (1 + 2 * value[0].ndim)
        return TensorMeta((words,), (1,), torch_dtype("i64"), False)
    if kind in ("tensor", "pointer"):
        meta = meta_of(value)
        # Beyond the descriptor's rank the address alone is one, and the rest comes as scalars.
        return meta if value.ndim <= MAX_RANK else TensorMeta((), (), meta.dtype, meta.aligned)
    return {"extent": _extent, "stride": _stride, "length": _length, "scalar": _itself}[kind](value, axis)


def hints_of(launch: CapturedLaunch) -> dict[str, int]:
    """Return a launch's hints under the names that `bind` knows."""
    return {_HINTS[name]: value for name, value in launch.hints.items() if name in _HINTS}


def _extent(value: Any, axis: int) -> int:
    return int(value.shape[axis])


def _stride(value: Any, axis: int) -> int:
    return int(value.stride(axis))


def _length(value: Any, axis: int) -> int:
    return len(value)


def _itself(value: Any, axis: int) -> Any:
    return value


def with_tables(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Replace lists of tensors by the rows of 64-bit words (address, extents, strides) that a kernel reads.

    The rows live on the tensors' device; the caller keeps them until the launch is made.
    """
    return tuple(table_of(value) if isinstance(value, list) else value for value in arguments)


def table_of(tensors: list[Any]) -> Any:
    """Return the words of a list of tensors (address, extents, strides of each), on their device.

    They begin 8 bytes beyond a multiple of 16: cuTile Python lays the tables of a launch one behind another, so its
    kernels know nothing more of their addresses, and no translation assumes more.
    """
    import torch

    words = [word for t in tensors for word in (0 if t.is_meta else t.data_ptr(), *t.shape, *t.stride())]
    return torch.tensor([0, *words], dtype=torch.int64).to(tensors[0].device)[1:]


def undescribed(arguments: Sequence[Any]) -> list[Any]:
    """Return the tensors whose extents no descriptor tells: those in lists, and those of high rank."""
    listed = [tensor for value in arguments if isinstance(value, list) for tensor in value]
    return listed + [value for value in arguments if hasattr(value, "data_ptr") and value.ndim > MAX_RANK]


def pointers_of(arguments: Sequence[Any], positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the addresses of the tensors at ``positions``."""
    return tuple(arguments[index].data_ptr() for index in positions)
