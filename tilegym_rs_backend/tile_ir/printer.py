# SPDX-License-Identifier: MIT
"""Print Tile IR for people: one line per operation, defaults left out, the source line beside it."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegym_rs_backend.tile_ir.constants import plain
from tilegym_rs_backend.tile_ir.model import Attribute
from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DenseAttr
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import FloatAttr
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import IntegerAttr
from tilegym_rs_backend.tile_ir.model import Module
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SameElements
from tilegym_rs_backend.tile_ir.model import SourceLoc
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import TokenType
from tilegym_rs_backend.tile_ir.types import Type

INDENT = "  "
_WIDTH = 100
_SHOWN_ELEMENTS = 8
_LONGEST_NAME = 200
_CODES = {"i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q", "f16": "<e", "f32": "<f", "tf32": "<f", "f64": "<d"}
# Attribute values that say nothing: what an operation does when nobody asks for anything else.
_USUAL = frozenset(
    [
        *(("rounding_mode", text) for text in ("nearest_even", "full", "nearest_int_to_zero")),
        *(("rounding", "zero"), ("overflow", "none"), ("memory_ordering_semantics", "weak")),
    ]
)


@dataclass(frozen=True)
class Line:
    """One printed line: its indented text, the operation on it, its source line.

    A brace has no ``op``, but the operation whose regions it bounds as its ``owner``.
    """

    text: str
    op: Op | None = None
    loc: SourceLoc | None = None
    owner: Op | None = None


def lines(function: Function) -> list[Line]:
    """A function, line by line."""
    return list(_Printer(function).lines())


def show(module: Module, sources: Sources | None = None) -> str:
    """A module as text; with ``sources``, each source line is quoted where it first takes effect."""
    parts = [
        f"# Tile IR {module.version[0]}.{module.version[1]}"
        + (f" by {printable(module.producer)}" if module.producer else "")
    ]
    for each in module.globals:
        kind = "constant" if each.constant else "global"
        parts.append(f"{each.visibility} {kind} @{printable(each.name)} : {each.type} = {len(each.data)} bytes")
    for function in module.functions:
        printed = lines(function)
        width = min(_WIDTH, max(len(line.text) for line in printed[1:]) + 2)
        before: SourceLoc | None = None
        for line in printed:
            beside = ""
            if line.loc is not None:
                beside = f"# {place(line.loc)}"
                if sources and (before is None or (before.file, before.line) != (line.loc.file, line.loc.line)):
                    beside += sources.quote(line.loc)
                before = line.loc
            parts.append(f"{line.text:<{width}}{beside}".rstrip())
    return "\n".join(parts) + "\n"


def place(loc: SourceLoc) -> str:
    """``softmax.rs:98:8``, with the calls it was inlined through: ``helper.rs:3:1 < softmax.rs:98:8``."""
    chain = []
    at: SourceLoc | None = loc
    while at is not None:
        chain.append(f"{printable(at.file.rsplit('/', 1)[-1])}:{at.line}:{at.column}")
        at = at.caller
    return " < ".join(chain)


def printable(text: str) -> str:
    """A name out of a file as it may be shown: on one line, not endless, nothing that a terminal would obey."""
    short = text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}.. ({len(text)} characters)"
    return short if short.isprintable() else repr(short)[1:-1]


class Sources:
    """Source files to quote from; a relative name is looked up below ``roots``."""

    def __init__(self, roots: Iterable[Path] = ()) -> None:
        self._roots = tuple(roots)
        self._files: dict[str, Sequence[str]] = {}

    def quote(self, loc: SourceLoc) -> str:
        """The text of a source line after a colon and a space, empty where the file is not there."""
        if loc.file not in self._files:
            self._files[loc.file] = self._read(loc.file)
        text = self._files[loc.file]
        return f": {text[loc.line - 1].strip()}" if 0 < loc.line <= len(text) else ""

    def _read(self, name: str) -> Sequence[str]:
        for candidate in (Path(name), *(root / name for root in self._roots)):
            try:
                if candidate.is_absolute() and candidate.is_file():
                    return candidate.read_text(errors="replace").splitlines()
            except (OSError, ValueError):
                continue
        return ()


class _Printer:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.names = {value: f"%arg{index}" for index, value in enumerate(function.params)}
        self.count = 0

    def name(self, value: Value) -> str:
        if value not in self.names:
            self.names[value] = f"%{self.count}"
            self.count += 1
        return self.names[value]

    def lines(self) -> Iterator[Line]:
        function = self.function
        params = ", ".join(f"{self.names[value]}: {value.type}" for value in function.params)
        hints = f" hints {_text(function.hints)}" if function.hints else ""
        kind = "entry" if function.is_entry else "function"
        yield Line(f"{kind} @{printable(function.name)}({params}){hints} {{", None, function.loc)
        yield from self.block(function.body, 1)
        yield Line("}")

    def block(self, block: Block, depth: int) -> Iterator[Line]:
        # Not recursive by chance: the reader bounds how deep regions nest.
        for op in block.ops:
            yield Line(INDENT * depth + self.op(op), op, op.loc)
            for number, region in enumerate(op.regions):
                params = ", ".join(f"{self.name(value)}: {value.type}" for value in region.params)
                if number:
                    yield Line(INDENT * depth + "} else {", owner=op)
                if params:
                    yield Line(INDENT * depth + f" ({params})", owner=op)
                yield from self.block(region, depth + 1)
            if op.regions:
                yield Line(INDENT * depth + "}", owner=op)

    def op(self, op: Op) -> str:
        parts = [op.opcode]
        if op.opcode == "constant":
            parts.append(constant_text(op))
        operands = self.operands(op)
        if operands:
            parts.append(", ".join(operands))
        attributes = attribute_texts(op)
        if attributes:
            parts.append(f"{{{', '.join(attributes)}}}")
        types = _shown_types(op)
        if types:
            parts.append(f": {', '.join(types)}")
        if op.regions:
            parts.append("{")
        results = ", ".join(self.name(value) for value in op.results)
        return f"{results} = {' '.join(parts)}" if results else " ".join(parts)

    def operands(self, op: Op) -> list[str]:
        texts: list[str] = []
        for name, where in op.segments.items():
            names = [self.name(value) for value in op.operands[where]]
            if name in ("token", "mask", "padding_value"):
                texts.extend(f"{name}={each}" for each in names)
            elif name in ("index", "dynamic_shape", "dynamic_strides", "indices", "init_values"):
                if names:
                    texts.append(f"{name.removeprefix('dynamic_').removesuffix('_values')}=[{', '.join(names)}]")
            else:
                texts.extend(names)
        return texts


def attribute_texts(op: Op) -> list[str]:
    """The attributes of an operation that say something: enums by value alone, the rest as ``name=value``."""
    texts = []
    for name, value in op.attributes.items():
        if (op.opcode, name) == ("constant", "value"):
            continue
        if value is False or (name, value if isinstance(value, str) else None) in _USUAL:
            continue
        if name == "inbounds" and isinstance(value, tuple) and not any(value):
            continue
        if value is True:
            texts.append(name)
        elif isinstance(value, str) and op.opcode not in ("assert", "print_tko", "get_global"):
            texts.append(value)
        elif name == "predicate":
            texts.append(_text(value))
        else:
            texts.append(f"{name.removeprefix('optimization_')}={_text(value)}")
    return texts


def constant_text(op: Op) -> str:
    """The value of a ``constant``: one element that fills the tile, or the first few of them."""
    data, kind = op.attributes.get("value"), op.results[0].type
    if not isinstance(data, bytes) or not isinstance(kind, TileType) or not isinstance(kind.element, ScalarType):
        return "?"
    data = plain(data, kind)
    width = max(1, kind.element.bits // 8)
    if kind.element.name == "tf32":
        width = 4
    if len(data) == width:
        return element_text(data, kind.element)
    shown = [
        element_text(data[i : i + width], kind.element)
        for i in range(0, min(len(data), _SHOWN_ELEMENTS * width), width)
    ]
    return f"[{', '.join(shown)}{', ..' if len(data) > _SHOWN_ELEMENTS * width else ''}]"


def element_text(data: bytes, element: ScalarType) -> str:
    """One element of a constant."""
    if element.name == "i1":
        return "true" if data and data[0] & 1 else "false"
    if element.name == "bf16" and len(data) == 2:
        return repr(struct.unpack("<f", b"\0\0" + data)[0])
    code = _CODES.get(element.name)
    if code is None or struct.calcsize(code) != len(data):
        return f"0x{data[::-1].hex()}"
    return repr(struct.unpack(code, data)[0])


def _text(value: Attribute) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, IntegerAttr):
        return str(value.value)
    if isinstance(value, FloatAttr):
        width = 4 if value.type.name == "tf32" else max(1, value.type.bits // 8)
        return element_text(value.bits.to_bytes(width, "little"), value.type)
    if isinstance(value, DivBy):
        more = [f"{name}={n}" for name, n in (("every", value.every), ("along", value.along)) if n is not None]
        return f"div_by<{', '.join([str(value.divisor), *more])}>"
    if isinstance(value, Bounded):
        return f"bounded<{', '.join('?' if n is None else str(n) for n in (value.lower, value.upper))}>"
    if isinstance(value, SameElements):
        return f"same_elements<{', '.join(map(str, value.values))}>"
    if isinstance(value, DenseAttr):
        return f"{len(value.data)} bytes of {value.type}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{printable(name)}: {_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_text, value))}]"
    return f"'{printable(value)}'" if isinstance(value, str) else str(value)


def _shown_types(op: Op) -> list[str]:
    """Types of the results; where there are none but tokens, of the tiles that go in."""
    types: list[Type] = [value.type for value in op.results if not isinstance(value.type, TokenType)]
    if not types and op.opcode.startswith(("store", "atomic")):
        types.extend([value.type for value in op.operands if isinstance(value.type, TileType)][:1])
    return [str(each) for each in types]
