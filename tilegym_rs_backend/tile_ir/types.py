# SPDX-License-Identifier: MIT
"""Types of Tile IR values. They are immutable, compare by value, and print as ``tileirdisasm`` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union

_BITS = {
    **{"i1": 1, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64},
    **{"f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64},
    **{"f8E4M3FN": 8, "f8E5M2": 8, "f8E8M0FNU": 8, "f8E5M3FNU": 8, "f4E2M1FN": 4},
}


@dataclass(frozen=True, slots=True)
class ScalarType:
    """An element type: ``i1`` to ``i64`` (signless), ``f16``, ``bf16``, ``f32``, ``tf32``, ``f64``, small floats."""

    name: str

    @property
    def bits(self) -> int:
        """Bits of one element in memory (``i1`` lies in a byte there, ``tf32`` in four)."""
        return _BITS[self.name]

    @property
    def is_integer(self) -> bool:
        """An integer, ``i1`` included."""
        return self.name.startswith("i")

    @property
    def is_float(self) -> bool:
        """A floating-point type."""
        return not self.is_integer

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class PointerType:
    """A pointer to elements of ``pointee``; ``attribute`` is the pointer attribute's number, None without one."""

    pointee: ScalarType
    attribute: int | None = None

    def __str__(self) -> str:
        return f"ptr<{self.pointee}>"


@dataclass(frozen=True, slots=True)
class TileType:
    """A tile: a constant shape (``()`` is a scalar) of scalars or pointers."""

    shape: tuple[int, ...]
    element: ScalarType | PointerType

    def __str__(self) -> str:
        return f"tile<{_extents(self.shape)}{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorViewType:
    """A tensor in memory; extents and strides are in elements, None where they are operands of ``make_tensor_view``."""

    shape: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    element: ScalarType
    attribute: int | None = None

    def __str__(self) -> str:
        strides = ",".join("?" if stride is None else str(stride) for stride in self.strides)
        return f"tensor_view<{_extents(self.shape)}{self.element}" + (f", strides=[{strides}]>" if self.shape else ">")


@dataclass(frozen=True, slots=True)
class PartitionViewType:
    """A tensor cut into tiles: axis i of the tile lies along tensor axis ``dim_map[i]``.

    ``padding`` is what loads outside the tensor return: ``zero``, ``neg_zero``, ``nan``, ``pos_inf``, ``neg_inf``, or
    None: undetermined.
    """

    tile: tuple[int, ...]
    view: TensorViewType
    dim_map: tuple[int, ...]
    padding: str | None = None

    def __str__(self) -> str:
        return f"partition_view<tile={_tile(self.tile)}, {_padding(self)}{self.view}{_dim_map(self)}>"


@dataclass(frozen=True, slots=True)
class StridedViewType:
    """Tiles whose origins lie ``traversal_strides`` elements apart, so that they may overlap or leave gaps."""

    tile: tuple[int, ...]
    traversal_strides: tuple[int, ...]
    view: TensorViewType
    dim_map: tuple[int, ...]
    padding: str | None = None

    def __str__(self) -> str:
        strides = ",".join(map(str, self.traversal_strides))
        return (
            f"strided_view<tile={_tile(self.tile)}, traversal_strides=[{strides}], "
            f"{_padding(self)}{self.view}{_dim_map(self)}>"
        )


@dataclass(frozen=True, slots=True)
class GatherScatterViewType:
    """Tiles whose rows along tensor axis ``sparse_dim`` are chosen one by one through an index tile."""

    tile: tuple[int, ...]
    view: TensorViewType
    sparse_dim: int
    padding: str | None = None

    def __str__(self) -> str:
        return (
            f"gather_scatter_view<tile={_tile(self.tile)}, {_padding(self)}{self.view}, sparse_dim={self.sparse_dim}>"
        )


@dataclass(frozen=True, slots=True)
class TokenType:
    """The order of memory accesses, as a value."""

    def __str__(self) -> str:
        return "token"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """Signature of a function."""

    parameters: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> ({', '.join(map(str, self.results))})"


ViewType = Union[PartitionViewType, StridedViewType, GatherScatterViewType]  # noqa: UP007
Type = Union[ScalarType, PointerType, TileType, TensorViewType, ViewType, TokenType, FunctionType]  # noqa: UP007


def _extents(shape: Sequence[int | None]) -> str:
    return "".join(f"{'?' if extent is None else extent}x" for extent in shape)


def _tile(shape: Sequence[int]) -> str:
    return f"({'x'.join(map(str, shape))})"


def _padding(view: ViewType) -> str:
    return f"padding_value = {view.padding}, " if view.padding else ""


def _dim_map(view: PartitionViewType | StridedViewType) -> str:
    if view.dim_map == tuple(range(len(view.dim_map))):
        return ""
    return f", dim_map=[{', '.join(map(str, view.dim_map))}]"
