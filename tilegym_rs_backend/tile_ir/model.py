# SPDX-License-Identifier: MIT
"""A Tile IR module in memory: functions, blocks, operations, values, attributes, source lines.

Control flow is structured: an operation holds regions, a region is one block. Values are objects, compared by identity
(the file's value numbers are reused and mean nothing outside the region).
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Union

from tilegym_rs_backend.tile_ir.types import FunctionType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import Type

Hints = Mapping[str, Mapping[str, Union[int, bool, str]]]  # noqa: UP007  target ("default", "sm_90") -> name -> value


@dataclass(frozen=True, slots=True)
class SourceLoc:
    """Where an operation was written; ``caller`` is where the function around it was inlined."""

    file: str
    line: int
    column: int
    function: str = ""
    caller: SourceLoc | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(eq=False, slots=True)
class Value:
    """A value: a result of the op ``owner``, or a parameter of the block ``owner``, the ``index``-th of either."""

    type: Type
    owner: Op | Block | None = None
    index: int = 0


@dataclass(frozen=True, slots=True)
class IntegerAttr:
    """A typed integer; ``bits`` is its two's complement, zero-extended."""

    bits: int
    type: ScalarType

    @property
    def value(self) -> int:
        """The number, read as signed."""
        width = self.type.bits
        return self.bits - (1 << width) if width > 1 and self.bits >> (width - 1) & 1 else self.bits


@dataclass(frozen=True, slots=True)
class FloatAttr:
    """A typed float; ``bits`` is its bit pattern (for ``tf32`` that of the equal f32)."""

    bits: int
    type: ScalarType


@dataclass(frozen=True, slots=True)
class DenseAttr:
    """Elements of a constant: ``data`` in row-major order, or one element that fills the tile."""

    data: bytes
    type: Type


@dataclass(frozen=True, slots=True)
class DivBy:
    """``assume``: each value, or each ``every``-th along axis ``along``, is a multiple of ``divisor``."""

    divisor: int
    every: int | None = None
    along: int | None = None


@dataclass(frozen=True, slots=True)
class SameElements:
    """``assume``: along axis i, runs of ``values[i]`` elements are equal."""

    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bounded:
    """``assume``: ``lower <= value <= upper`` (signed, both ends included); None is open."""

    lower: int | None
    upper: int | None


Attribute = Union[
    None,
    bool,
    int,
    str,
    bytes,
    "tuple[Attribute, ...]",
    "Mapping[str, Attribute]",
    IntegerAttr,
    FloatAttr,
    DenseAttr,
    DivBy,
    SameElements,
    Bounded,
    Type,
]


@dataclass(eq=False, slots=True)
class Op:
    """An operation.

    Attributes:
        opcode: its name, ``"load_view_tko"``.
        operands: all operands in the file's order.
        segments: operand name -> its place in ``operands``; an absent optional operand has no entry.
        results: its results; they exist after its regions were run.
        attributes: name -> value; an absent optional attribute has no entry. Enums are lower-case strings.
        regions: its blocks.
        loc: source line, None when the file has none.
    """

    opcode: str
    operands: list[Value] = field(default_factory=list)
    segments: dict[str, slice] = field(default_factory=dict)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)
    loc: SourceLoc | None = None

    def operand(self, name: str) -> Value | None:
        """The single operand ``name``, None where an optional one is absent."""
        place = self.segments.get(name)
        return None if place is None else self.operands[place.start]

    def group(self, name: str) -> list[Value]:
        """The operands of the variadic group ``name`` (or of a single operand), in order; empty where absent."""
        place = self.segments.get(name)
        return [] if place is None else self.operands[place]

    @property
    def result(self) -> Value:
        """The first result."""
        return self.results[0]


@dataclass(eq=False, slots=True)
class Block:
    """A region's one block: its parameters and its operations, the terminator last."""

    params: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    def walk(self) -> Iterator[tuple[int, Op]]:
        """All operations in the order of the file, each with its nesting depth (0 here)."""
        stack = [iter(self.ops)]
        while stack:
            op = next(stack[-1], None)
            if op is None:
                stack.pop()
                continue
            yield len(stack) - 1, op
            inner = [each for region in op.regions for each in region.ops]
            if inner:
                stack.append(iter(inner))


@dataclass(eq=False, slots=True)
class Function:
    """A function; ``is_entry`` marks a kernel. ``params`` are ``body.params``."""

    name: str
    type: FunctionType
    body: Block
    hints: Hints = field(default_factory=dict)
    is_entry: bool = True
    loc: SourceLoc | None = None

    @property
    def params(self) -> list[Value]:
        """The parameters."""
        return self.body.params


@dataclass(eq=False, slots=True)
class Global:
    """A module-level variable or constant with its initial ``data``; ``alignment`` in bytes, 0 for the type's own."""

    name: str
    type: Type
    data: bytes
    alignment: int = 0
    constant: bool = False
    visibility: str = "public"


@dataclass(eq=False, slots=True)
class Module:
    """A bytecode file; ``version`` is that of the format, ``(13, 4)``; ``producer`` names what wrote it, if it says."""

    version: tuple[int, int]
    functions: list[Function] = field(default_factory=list)
    globals: list[Global] = field(default_factory=list)
    producer: str = ""

    def entry(self, name: str | None = None) -> Function:
        """The entry ``name``, or the only one.

        Raises:
            KeyError: there is no such entry, or several and no name was given.
        """
        entries = [f for f in self.functions if f.is_entry and name in (None, f.name)]
        if len(entries) != 1:
            names = [f.name for f in self.functions if f.is_entry]
            raise KeyError(f"One entry{f' {name!r}' if name else ''} was expected, the module holds {names}.")
        return entries[0]
