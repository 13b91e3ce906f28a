# SPDX-License-Identifier: MIT
"""Memory nobody has written: outputs that an op allocated with `torch.empty` and its kind.

Under `uninitialized_memory` such allocations are remembered, and executed kernels may read from them only what a kernel
stored before. A torch function that writes into a tensor (its name ends in an underscore, or it has `out=`) counts as
having written all of it.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

if TYPE_CHECKING:
    import torch

    from .tile_ir.execute import Memory

_EMPTY = frozenset(
    {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_"}
)
_active: contextvars.ContextVar[list[_Fresh] | None] = contextvars.ContextVar("tilegym_rs_fresh", default=None)


class _Fresh:
    """The storage of a tensor, kept alive, and which of its bytes were written."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.keep = tensor
        storage = tensor.untyped_storage()
        self.base = storage.data_ptr()
        self.written = np.zeros(storage.nbytes(), np.bool_)


@contextlib.contextmanager
def uninitialized_memory() -> Iterator[None]:
    """Have executed kernels checked for reads of what nobody wrote, in tensors allocated meanwhile."""
    from torch.overrides import TorchFunctionMode

    found: list[_Fresh] = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            name = getattr(func, "__name__", "")
            if name in _EMPTY:
                if result.device.type == "cpu" and result.numel():
                    found.append(_Fresh(result))
            elif found and (_writes(name) or "out" in (kwargs or {})):
                _mark(found, [*args[:1], *_tensors((kwargs or {}).get("out"))])
            return result

    token = _active.set(found)
    try:
        with Watch():
            yield
    finally:
        _active.reset(token)


def _writes(name: str) -> bool:
    if name.startswith("__"):
        return name == "__setitem__" or name.startswith("__i")
    return name.endswith("_") and name != "requires_grad_"


def _tensors(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [] if value is None else [value]


def _mark(found: list[_Fresh], tensors: list[Any]) -> None:
    bases = {tensor.untyped_storage().data_ptr() for tensor in tensors if hasattr(tensor, "untyped_storage")}
    for each in found:
        if each.base in bases:
            each.written[:] = True


@contextlib.contextmanager
def known_to(memory: Memory) -> Iterator[None]:
    """Tell a launch's memory what nobody wrote yet, and learn from it what the launch wrote."""
    found = _active.get() or []
    shared = [
        (allocation, each)
        for allocation in memory.allocations
        for each in found
        if each.base <= allocation.base and allocation.end <= each.base + len(each.written)
    ]
    for allocation, each in shared:
        allocation.set_written(each.written[allocation.base - each.base : allocation.end - each.base])
    yield
    for allocation, each in shared:
        each.written[allocation.base - each.base : allocation.end - each.base] = allocation.get_written()
