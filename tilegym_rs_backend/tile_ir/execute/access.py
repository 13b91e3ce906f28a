# SPDX-License-Identifier: MIT
"""Which elements an operation touches: as a strided box per block, or as a list of indices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from typing import Protocol

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array


class Access(Protocol):
    """Elements of an allocation, each with the block that touches it."""

    @property
    def blocks(self) -> Array:
        """Block numbers, broadcastable to what `get` returns."""

    @property
    def distinct(self) -> bool:
        """No element is touched twice by different blocks, for sure."""

    def get(self, array: Array) -> Array:
        """Return the elements of a flat array, perhaps without a copy."""

    def set(self, array: Array, values: Array | int | bool) -> None:
        """Store into the elements of a flat array."""

    def scaled(self, factor: int) -> Access:
        """Return the access in units `factor` times smaller; results get one more axis, of that length."""


@dataclass(frozen=True, slots=True)
class Box:
    """Boxes of several blocks, equally shaped, a constant distance apart.

    ``start``, ``strides`` in elements; ``shape`` has the block axis first (1 for one block).
    """

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    blocks: Array  # (shape[0], 1, ...)

    @property
    def distinct(self) -> bool:
        """No element is touched twice by different blocks, for sure."""
        return self.shape[0] == 1

    def get(self, array: Array) -> Array:
        """Return a view of the elements."""
        size = array.itemsize
        strides = tuple([stride * size for stride in self.strides])
        raw: Any = array.view(np.uint8)
        elements: Array = np.ndarray(self.shape, array.dtype, raw, self.start * size, strides)
        return elements

    def set(self, array: Array, values: Array | int | bool) -> None:
        """Store into the elements."""
        self.get(array)[...] = values

    def scaled(self, factor: int) -> Box:
        """Return the access in smaller units."""
        strides = (*(stride * factor for stride in self.strides), 1)
        return Box(self.start * factor, (*self.shape, factor), strides, self.blocks[..., None])


@dataclass(frozen=True, slots=True)
class Indexed:
    """Elements one by one: flat indices, and the block of each."""

    index: Array
    blocks: Array

    @property
    def distinct(self) -> bool:
        """No element is touched twice by different blocks, for sure."""
        return bool((self.blocks == self.blocks.flat[0]).all()) if self.blocks.size else True

    def get(self, array: Array) -> Array:
        """Return the elements."""
        return array[self.index]

    def set(self, array: Array, values: Array | int | bool) -> None:
        """Store into the elements; of several stores to one, the last stays."""
        array[self.index] = values

    def scaled(self, factor: int) -> Indexed:
        """Return the access in smaller units."""
        return Indexed(self.index[..., None] * factor + np.arange(factor), self.blocks[..., None])
