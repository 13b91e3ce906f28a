# SPDX-License-Identifier: MIT
"""The tensors in a call's arguments, lists and tuples included: named, replaced, compared bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.guard import BAND
from pytest_cutile_rs.checks.guard import Bands
from pytest_cutile_rs.checks.guard import like
from pytest_cutile_rs.checks.guard import storage_bytes

if TYPE_CHECKING:
    import torch


def tensors(call: Call) -> Iterator[tuple[int | str, str, torch.Tensor]]:
    """Position or name of the argument, the tensor's name for messages, and the tensor."""
    for key, value in _arguments(call):
        for where, tensor in _nested(value):
            yield key, f"{key}{where}", tensor


def mapped(call: Call, change: Callable[[str, torch.Tensor], torch.Tensor]) -> Call:
    """The call with each tensor replaced by what ``change`` makes of its name and itself."""

    def within(value: Any, name: str) -> Any:
        if _is_tensor(value):
            return change(name, value)
        if isinstance(value, (list, tuple)):
            changed = [within(item, f"{name}[{index}]") for index, item in enumerate(value)]
            # A named tuple takes its fields one by one.
            return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)
        return value

    args = tuple(within(value, str(position)) for position, value in enumerate(call.args))
    return Call(args, {name: within(value, name) for name, value in call.kwargs.items()})


def copied(call: Call, bands: Bands | None = None) -> Call:
    """The call with copies of its tensors in the same layout; tensors that shared memory still do.

    With ``bands``, the copies lie in guarded buffers, and those of ``out`` hold poison.
    """
    storages: dict[int, torch.Tensor] = {}
    begin = BAND if bands is not None else 0

    def copy(name: str, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_meta:
            return tensor
        key = tensor.untyped_storage().data_ptr()
        if key not in storages:
            memory = storage_bytes(tensor)
            if bands is None:
                storages[key] = memory.clone()
            else:
                storages[key] = bands.buffer(memory.numel(), f"input {name}", tensor.dtype, tensor.device)
                if name.partition("[")[0] != "out":
                    storages[key][BAND : BAND + memory.numel()] = memory
        return like(tensor, storages[key], begin)

    return mapped(call, copy)


def modified(suite: OpSuite, before: Call, after: Call) -> list[str]:
    """One line per tensor that the op changed and must not: any but ``out`` and those in ``suite.in_place``."""
    import torch

    writable = {"out", *suite.in_place}
    found = []
    for (key, name, then), (_, _, now) in zip(tensors(before), tensors(after), strict=True):
        if key not in writable and not then.is_meta and not torch.equal(bits(now), bits(then)):
            found.append(f"input {name} was modified")
    return found


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers: NaN differs from itself, and -0 equals 0."""
    import torch

    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.int64}[tensor.element_size()]
    tensor = tensor.detach().contiguous()
    return (tensor.reshape(1) if tensor.ndim == 0 else tensor).view(width)


def _arguments(call: Call) -> Iterator[tuple[int | str, Any]]:
    yield from enumerate(call.args)
    yield from call.kwargs.items()


def _nested(value: Any, where: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    if _is_tensor(value):
        yield where, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _nested(item, f"{where}[{index}]")


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)
