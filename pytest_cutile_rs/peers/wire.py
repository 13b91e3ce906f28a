# SPDX-License-Identifier: MIT
"""Tensors as bytes, for the way between processes: exact bits, any dtype, strides kept."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Packed:
    """A CPU tensor: the bytes from its first element to its last, and how they are read.

    Attributes:
        dtype: torch's name (``"float8_e4m3fn"``).
        shape, strides: in elements.
        data: the memory, gaps between elements included.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    data: bytes = field(repr=False)


def pack(tensor: torch.Tensor) -> Packed:
    """The tensor's memory and geometry; it has to be strided and on the CPU."""
    import torch

    tensor = tensor.detach()
    span = _span(tuple(tensor.shape), tuple(tensor.stride()))
    memory = tensor.as_strided((span,), (1,), tensor.storage_offset()).view(torch.uint8)
    name = str(tensor.dtype).removeprefix("torch.")
    return Packed(name, tuple(tensor.shape), tuple(tensor.stride()), memory.numpy().tobytes())


def unpack(packed: Packed) -> torch.Tensor:
    """The tensor that was packed, in memory of its own."""
    import torch

    dtype = getattr(torch, packed.dtype)
    if not packed.data:
        return torch.empty_strided(packed.shape, packed.strides, dtype=dtype)
    memory = torch.frombuffer(bytearray(packed.data), dtype=torch.uint8).view(dtype)
    return memory.as_strided(packed.shape, packed.strides)


def _span(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first one to the last one."""
    if 0 in shape:
        return 0
    return 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
