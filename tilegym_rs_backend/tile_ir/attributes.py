# SPDX-License-Identifier: MIT
"""Read attributes that carry their own kind: numbers, strings, dictionaries, predicates of ``assume``."""

from __future__ import annotations

from collections.abc import Mapping

from tilegym_rs_backend.tile_ir.container import Constants
from tilegym_rs_backend.tile_ir.container import Strings
from tilegym_rs_backend.tile_ir.model import Attribute
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DenseAttr
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import FloatAttr
from tilegym_rs_backend.tile_ir.model import Hints
from tilegym_rs_backend.tile_ir.model import IntegerAttr
from tilegym_rs_backend.tile_ir.model import SameElements
from tilegym_rs_backend.tile_ir.stream import Stream
from tilegym_rs_backend.tile_ir.typetable import TypeTable

_INTEGER, _FLOAT, _BOOL, _TYPE, _STRING, _ARRAY, _DENSE, _DIV_BY, _SAME, _DICTIONARY, _HINTS, _BOUNDED = range(1, 13)
# Hints nest two deep, nothing else nests at all.
_MAX_DEPTH = 8
_TF32_BITS = 19


class AttributeReader:
    """Reads self-describing attributes with a file's tables."""

    def __init__(self, strings: Strings, types: TypeTable, constants: Constants) -> None:
        self.strings = strings
        self.types = types
        self.constants = constants

    def read(self, stream: Stream, depth: int = 0) -> Attribute:
        """One attribute: its tag, then its value."""
        at = stream.position
        if depth > _MAX_DEPTH:
            raise stream.fail(f"attributes nest deeper than {_MAX_DEPTH}")
        tag = stream.varint()
        if tag == _INTEGER:
            element = self.types.scalar(stream)
            if not element.is_integer:
                raise stream.fail(f"an integer of type {element}", at)
            return IntegerAttr(stream.varint() & ((1 << element.bits) - 1), element)
        if tag == _FLOAT:
            return self._float(stream)
        if tag == _BOOL:
            return boolean(stream)
        if tag == _TYPE:
            return self.types.read(stream)
        if tag == _STRING:
            return self.strings.read(stream)
        if tag == _ARRAY:
            return self.array(stream, depth + 1)
        if tag == _DENSE:
            element_type = self.types.read(stream)
            return DenseAttr(self.constants.read(stream), element_type)
        if tag == _DIV_BY:
            divisor = stream.varint()
            if not divisor:
                raise stream.fail("div_by<0>", at)
            every, along = self._optional_pair(stream)
            return DivBy(divisor, every, along)
        if tag == _SAME:
            return SameElements(stream.integers(8))
        if tag in (_DICTIONARY, _HINTS):
            return self.dictionary(stream, depth + 1)
        if tag == _BOUNDED:
            return Bounded(*self._optional_pair(stream))
        raise stream.fail(f"attribute tag {tag} is unknown", at)

    def array(self, stream: Stream, depth: int = 0) -> tuple[Attribute, ...]:
        """A counted list of attributes."""
        return tuple(self.read(stream, depth) for _ in range(stream.count("attributes", 2)))

    def dictionary(self, stream: Stream, depth: int = 0) -> Mapping[str, Attribute]:
        """A counted list of named attributes."""
        found: dict[str, Attribute] = {}
        for _ in range(stream.count("named attributes", 3)):
            name = self.strings.read(stream)
            found[name] = self.read(stream, depth)
        return found

    def hints(self, stream: Stream, *, tagged: bool = False) -> Hints:
        """Compiler hints by target."""
        at = stream.position
        if tagged and (tag := stream.varint()) != _HINTS:
            raise stream.fail(f"hints were expected, not an attribute with tag {tag}", at)
        found: dict[str, dict[str, int | bool | str]] = {}
        for target, values in self.dictionary(stream).items():
            if not isinstance(values, Mapping):
                raise stream.fail(f"hints for {target} that are no dictionary", at)
            by_name = found[target] = {}
            for name, value in values.items():
                plain = value.value if isinstance(value, IntegerAttr) else value
                if not isinstance(plain, (bool, int, str)):
                    raise stream.fail(f"hint {name} is neither a number nor a string", at)
                by_name[name] = plain
        return found

    def _float(self, stream: Stream) -> FloatAttr:
        at = stream.position
        element = self.types.scalar(stream)
        if not element.is_float:
            raise stream.fail(f"a float of type {element}", at)
        bits = stream.u8() if element.bits <= 8 else stream.signed() & ((1 << element.bits) - 1)
        # cuTile Python writes tf32's own 19 bits, cutile-rs those of the f32.
        if element.name == "tf32" and bits < 1 << _TF32_BITS:
            bits <<= 32 - _TF32_BITS
        return FloatAttr(bits, element)

    @staticmethod
    def _optional_pair(stream: Stream) -> tuple[int | None, int | None]:
        at = stream.position
        flags = stream.u8()
        if flags > 3:
            raise stream.fail(f"unknown flags {flags:#x}", at)
        first = stream.signed() if flags & 1 else None
        return first, stream.signed() if flags & 2 else None


def boolean(stream: Stream) -> bool:
    """A byte that is 0 or 1."""
    value = stream.u8()
    if value > 1:
        raise stream.fail(f"{value} instead of a truth value", stream.position - 1)
    return bool(value)
