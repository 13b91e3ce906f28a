# SPDX-License-Identifier: MIT
"""The type section of a bytecode file."""

from __future__ import annotations

import math

from tilegym_rs_backend.tile_ir.container import read_table
from tilegym_rs_backend.tile_ir.stream import Stream
from tilegym_rs_backend.tile_ir.types import FunctionType
from tilegym_rs_backend.tile_ir.types import GatherScatterViewType
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import StridedViewType
from tilegym_rs_backend.tile_ir.types import TensorViewType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import TokenType
from tilegym_rs_backend.tile_ir.types import Type

PADDINGS = ("zero", "neg_zero", "nan", "pos_inf", "neg_inf")
_SCALARS = {
    **dict(enumerate(("i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2"))),
    **{18: "f8E8M0FNU", 19: "f4E2M1FN", 22: "i4", 130: "f8E5M3FNU"},
}
_POINTER, _TILE, _TENSOR_VIEW, _PARTITION_VIEW, _FUNCTION, _TOKEN = range(12, 18)
_GATHER_SCATTER_VIEW, _STRIDED_VIEW = 20, 21
_DYNAMIC = -(1 << 63)
# Pointer and scalar inside a tile inside a function: no type nests deeper.
_MAX_DEPTH = 4
# Tile IR's own limit, and more axes than any kernel has: types are printed and hashed often.
_MAX_ELEMENTS = 1 << 24
_MAX_RANK = 32


class TypeTable:
    """The types of a file; each is parsed when it is asked for."""

    def __init__(self, section: Stream | None, version: tuple[int, int]) -> None:
        self._records = read_table(section, 4, "types") if section else []
        self._types: list[Type | None] = [None] * len(self._records)
        self._version = version

    def read(self, stream: Stream, depth: int = 0) -> Type:
        """Read a type's number from ``stream`` and return the type."""
        at = stream.position
        index = stream.varint()
        if index >= len(self._records):
            raise stream.fail(f"type {index} of {len(self._records)}", at)
        known = self._types[index]
        if known is None:
            if depth > _MAX_DEPTH:
                raise stream.fail("types refer to one another without end", at)
            record = self._records[index]
            known = self._types[index] = self._parse(Stream(record.data, record.start, record.end), depth + 1)
        return known

    def value(self, stream: Stream, depth: int = 0) -> Type:
        """Read the number of a type that a value may have: any but a function's."""
        at = stream.position
        found = self.read(stream, depth)
        if isinstance(found, FunctionType):
            raise stream.fail("a value of a function type", at)
        return found

    def scalar(self, stream: Stream, depth: int = 0) -> ScalarType:
        """Read the number of an element type."""
        at = stream.position
        found = self.read(stream, depth)
        if not isinstance(found, ScalarType):
            raise stream.fail(f"an element type was expected, not {type(found).__name__}", at)
        return found

    def _parse(self, stream: Stream, depth: int) -> Type:
        at = stream.position
        tag = stream.varint()
        if tag in _SCALARS:
            found: Type = ScalarType(_SCALARS[tag])
        elif tag == _TOKEN:
            found = TokenType()
        elif tag == _POINTER:
            flags = self._flags(stream, (13, 4))
            found = PointerType(self.scalar(stream, depth), stream.u8() if flags else None)
        elif tag == _TILE:
            found = self._tile(stream, depth)
        elif tag == _TENSOR_VIEW:
            flags = self._flags(stream, (13, 4))
            element = self.scalar(stream, depth)
            shape, strides = (tuple(None if n == _DYNAMIC else n for n in stream.integers(8)) for _ in range(2))
            if len(shape) != len(strides):
                raise stream.fail(f"a tensor view of {len(shape)} extents and {len(strides)} strides", at)
            if len(shape) > _MAX_RANK or any(n is not None and n < 1 for n in (*shape, *strides)):
                raise stream.fail(f"a tensor view of extents {shape[:8]} and strides {strides[:8]}", at)
            found = TensorViewType(shape, strides, element, stream.u8() if flags else None)
        elif tag == _FUNCTION:
            parameters, results = (
                tuple(self.value(stream, depth) for _ in range(stream.count("types"))) for _ in range(2)
            )
            found = FunctionType(parameters, results)
        elif tag in (_PARTITION_VIEW, _GATHER_SCATTER_VIEW, _STRIDED_VIEW):
            found = self._view(stream, tag, depth)
        else:
            raise stream.fail(f"type tag {tag} is unknown", at)
        stream.finished("a type")
        return found

    def _flags(self, stream: Stream, since: tuple[int, int]) -> int:
        """The bits of a type's optional fields; only bit 0 has a meaning."""
        at = stream.position
        flags = stream.varint() if self._version >= since else 0
        if flags > 1:
            raise stream.fail(f"unknown type flags {flags:#x}", at)
        return flags

    def _tile(self, stream: Stream, depth: int) -> TileType:
        at = stream.position
        element = self.read(stream, depth)
        if not isinstance(element, (ScalarType, PointerType)):
            raise stream.fail(f"a tile of {type(element).__name__}", at)
        return TileType(self._shape(stream, stream.integers(8)), element)

    def _view(self, stream: Stream, tag: int, depth: int) -> Type:
        at = stream.position
        # Before 13.3 the flag stood after the fields.
        flags = self._flags(stream, (13, 3))
        tile = self._shape(stream, stream.integers(4))
        traversal = self._positive(stream, stream.integers(4)) if tag == _STRIDED_VIEW else ()
        view = self.read(stream, depth)
        if not isinstance(view, TensorViewType):
            raise stream.fail(f"a view of {type(view).__name__}", at)
        sparse = stream.varint() if tag == _GATHER_SCATTER_VIEW else 0
        dim_map = stream.integers(4) if tag != _GATHER_SCATTER_VIEW else ()
        if self._version < (13, 3):
            flags = stream.varint()
        padding = None
        if flags:
            number = stream.u8()
            if number >= len(PADDINGS):
                raise stream.fail(f"padding value {number} is unknown", stream.position - 1)
            padding = PADDINGS[number]
            if number and view.element.is_integer:
                raise stream.fail(f"padding {padding} of {view.element}", at)
        rank = len(view.shape)
        if len(tile) != rank or sparse >= max(rank, 1) or (tag == _STRIDED_VIEW and len(traversal) != rank):
            raise stream.fail(f"a view of rank {len(tile)} of a tensor of rank {rank}", at)
        if tag == _GATHER_SCATTER_VIEW:
            return GatherScatterViewType(tile, view, sparse, padding)
        if sorted(dim_map) != list(range(rank)):
            raise stream.fail(f"dim_map {list(dim_map)} is no permutation of {rank} axes", at)
        if tag == _PARTITION_VIEW:
            return PartitionViewType(tile, view, dim_map, padding)
        return StridedViewType(tile, traversal, view, dim_map, padding)

    def _positive(self, stream: Stream, extents: tuple[int, ...]) -> tuple[int, ...]:
        if len(extents) > _MAX_RANK or any(extent < 1 for extent in extents):
            raise stream.fail(f"extents {list(extents[:8])} of a tile ({len(extents)} axes)")
        return extents

    def _shape(self, stream: Stream, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Check a tile's extents: powers of two, not too many elements."""
        for extent in self._positive(stream, extents):
            if extent & (extent - 1):
                raise stream.fail(f"extents {list(extents)} of a tile are no powers of two")
        if math.prod(extents) > _MAX_ELEMENTS:
            raise stream.fail(f"a tile of extents {list(extents)} has more than {_MAX_ELEMENTS} elements")
        return extents
