# SPDX-License-Identifier: MIT
"""Guard bands: tensors that lie in larger, poisoned buffers, so that stray writes beside them show.

`guarded` does so for what an op allocates, `Bands.around` for a tensor that is there, such as an argument.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    import torch

# Bytes before and after each allocation: a multiple of what allocators align to, so that an address keeps its class.
BAND = 2048
# NaN in every floating-point format; and no number that an integer kernel is likely to write.
_NAN_BYTE = 0xFF
_ODD_BYTE = 0xA5
_UNFILLED = ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
_FILLED = ("zeros", "ones", "full")


@dataclass
class Bands:
    """The buffers handed out; ``broken`` inspects them."""

    buffers: list[tuple[str, torch.Tensor, int, int]] = field(default_factory=list)

    def buffer(self, size: int, name: str, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        """A poisoned buffer of ``size`` bytes and both bands; what lies in it begins at byte ``BAND``."""
        import torch

        poison = _NAN_BYTE if dtype.is_floating_point else _ODD_BYTE
        buffer = torch.full((size + 2 * BAND,), poison, dtype=torch.uint8, device=device)
        self.buffers.append((name, buffer, size, poison))
        return buffer

    def around(self, tensor: torch.Tensor, name: str, *, keep: bool) -> torch.Tensor:
        """The same tensor (dtype, shape, strides, offset) over a copy of its storage with bands around it.

        Args:
            tensor: strided, and not on ``meta``.
            name: what messages call it.
            keep: copy the values; False leaves poison in their place.
        """
        import torch

        memory = storage_bytes(tensor)
        buffer = self.buffer(memory.numel(), name, tensor.dtype, tensor.device)
        if keep or tensor.dtype == torch.bool:  # a bool of another byte than 0 and 1 is no value at all
            buffer[BAND : BAND + memory.numel()] = memory
        return like(tensor, buffer, BAND)

    def broken(self) -> list[str]:
        """One line per band that no longer holds only poison."""
        found = []
        for name, buffer, size, poison in self.buffers:
            for side, band in (("before", buffer[:BAND]), ("after", buffer[BAND + size :])):
                written = int((band != poison).sum())
                if written:
                    found.append(f"{written} of {BAND} guard bytes {side} {name} were overwritten")
        return found


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """All bytes of the storage that a tensor lies in."""
    import torch

    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.untyped_storage())


def like(tensor: torch.Tensor, memory: torch.Tensor, begin: int) -> torch.Tensor:
    """``tensor``'s view, over other bytes: those of ``memory`` from ``begin`` on stand for its storage."""
    item = tensor.element_size()
    whole = memory[: memory.numel() // item * item].view(tensor.dtype)
    return whole.as_strided(tensor.shape, tensor.stride(), begin // item + tensor.storage_offset())


def _allocating() -> dict[Any, tuple[str, bool]]:
    """torch's allocating functions: their names, and whether they fill what they return."""
    import torch

    found: dict[Any, tuple[str, bool]] = {}
    for name in (*_UNFILLED, *(f"{stem}{kind}" for stem in _FILLED for kind in ("", "_like"))):
        if hasattr(torch, name):
            found[getattr(torch, name)] = (f"torch.{name}", name not in _UNFILLED)
    for name in (*_UNFILLED, *(f"new_{stem}" for stem in _FILLED)):
        if name.startswith("new_"):
            found[getattr(torch.Tensor, name)] = (f"Tensor.{name}", name not in _UNFILLED)
    return found


@functools.cache
def _banding() -> Callable[[Bands], AbstractContextManager[Any]]:
    """The mode that gives bands: one class for all, since a class made at each use keeps its bands' memory alive."""
    import torch
    from torch.overrides import TorchFunctionMode

    allocating = _allocating()

    class Banding(TorchFunctionMode):
        def __init__(self, bands: Bands) -> None:
            super().__init__()
            self.bands = bands

        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            plain = func(*args, **(kwargs or {}))
            if func not in allocating or "out" in (kwargs or {}) or not isinstance(plain, torch.Tensor):
                return plain
            if plain.is_meta or plain.layout != torch.strided or plain.requires_grad or not plain.numel():
                return plain
            name, keep = allocating[func]
            return self.bands.around(plain, f"the output of {name}", keep=keep)

    return Banding


@contextmanager
def guarded(given: Bands | None = None) -> Iterator[Bands]:
    """Gives bands to what torch's allocating functions return meanwhile: empty, zeros, ones, full, their kinds.

    Memory that the function leaves unfilled is poisoned, so an element that is never written is a NaN in the result.
    """
    bands = Bands() if given is None else given
    with _banding()(bands):
        yield bands
