# SPDX-License-Identifier: MIT
"""Guard bands: allocations made inside `guarded` lie in larger, poisoned buffers, so that stray writes show."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    import torch

# Before and after each allocation; 512 bytes or more for any dtype, so that the alignment of the address stays as is.
BAND = 512


@dataclass
class Bands:
    """The buffers handed out; ``broken`` inspects them."""

    buffers: list[tuple[str, torch.Tensor, int]] = field(default_factory=list)

    def broken(self) -> list[str]:
        """One line per band that no longer holds only poison."""
        import torch

        found = []
        for name, buffer, size in self.buffers:
            for side, band in (("before", buffer[:BAND]), ("after", buffer[BAND + size :])):
                written = int((~torch.isnan(band)).sum())
                if written:
                    found.append(f"{written} of {BAND} guard elements {side} the output of {name} were overwritten")
        return found


@contextmanager
def guarded() -> Iterator[Bands]:
    """Replaces the memory of `torch.empty`, `empty_like` and `Tensor.new_empty` for floating-point tensors.

    The allocation itself is filled with NaN, so an element that is never written is a NaN in the result.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    bands = Bands()
    wrapped: dict[Any, str] = {
        torch.empty: "torch.empty",
        torch.empty_like: "torch.empty_like",
        torch.Tensor.new_empty: "Tensor.new_empty",
    }

    class _Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            plain = func(*args, **(kwargs or {}))
            if func not in wrapped or not isinstance(plain, torch.Tensor) or not plain.is_floating_point():
                return plain
            if plain.is_meta or not _dense(plain):
                return plain
            size = plain.numel()
            buffer = torch.full((size + 2 * BAND,), float("nan"), dtype=plain.dtype, device=plain.device)
            bands.buffers.append((wrapped[func], buffer, size))
            return buffer.as_strided(plain.shape, plain.stride(), BAND)

    with _Mode():
        yield bands


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the strides cover the storage exactly once, so that ``numel`` elements hold the tensor."""
    expected = 1
    for size, stride in sorted(zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return tensor.numel() > 0
