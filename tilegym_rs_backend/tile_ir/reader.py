# SPDX-License-Identifier: MIT
"""Read Tile IR bytecode, format 13.1 to 13.4, as cuTile Python and cutile-rs write it.

Whatever the bytes are, ``read_module`` returns a module or raises ``TileIrError`` in time and memory linear in their
number.
"""

from __future__ import annotations

from collections.abc import Callable

from tilegym_rs_backend.tile_ir import container
from tilegym_rs_backend.tile_ir.attributes import AttributeReader
from tilegym_rs_backend.tile_ir.attributes import boolean
from tilegym_rs_backend.tile_ir.container import Constants
from tilegym_rs_backend.tile_ir.container import Strings
from tilegym_rs_backend.tile_ir.debug import DebugInfo
from tilegym_rs_backend.tile_ir.model import Attribute
from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Global
from tilegym_rs_backend.tile_ir.model import Module
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.stream import Stream
from tilegym_rs_backend.tile_ir.stream import TileIrError
from tilegym_rs_backend.tile_ir.structure import check_structure
from tilegym_rs_backend.tile_ir.table import Field
from tilegym_rs_backend.tile_ir.table import layouts
from tilegym_rs_backend.tile_ir.types import FunctionType
from tilegym_rs_backend.tile_ir.types import Type
from tilegym_rs_backend.tile_ir.typetable import TypeTable

_PRIVATE, _ENTRY, _HAS_HINTS = 1, 2, 4
MAX_DEPTH = 64
_PADDING = b"\xcb"
_MAX_PADDING = 8
# A function's body cannot hold these; they are the file's own structure.
_STRUCTURE = frozenset(("module", "entry", "global"))

__all__ = ["TileIrError", "read_module"]


def read_module(data: bytes, *, check: bool = True) -> Module:
    """Read a bytecode file.

    Args:
        data: the whole file.
        check: also check that control flow fits together (see structure.py) and that names are unique; False decodes,
            and nothing more.

    Raises:
        TileIrError: the bytes are no bytecode, of a version that is not read here, or damaged; ``offset`` says where.
    """
    return _ModuleReader(bytes(data), check).module


class _ModuleReader:
    def __init__(self, data: bytes, check: bool) -> None:
        self.check = check
        version = container.read_version(data)
        sections = container.read_sections(data)
        if container.FUNCTIONS not in sections:
            raise TileIrError("there is no function section", len(data))
        strings = Strings(sections.get(container.STRINGS))
        types = TypeTable(sections.get(container.TYPES), version)
        self.attributes = AttributeReader(strings, types, Constants(sections.get(container.CONSTANTS)))
        self.debug = DebugInfo(sections.get(container.DEBUG), strings)
        self.module = Module(version)
        self.symbols: set[str] = set()
        producer = sections.get(container.PRODUCER)
        if producer is not None:
            self.module.producer = strings.read(producer)
        if container.GLOBALS in sections:
            self._globals(sections[container.GLOBALS])
        stream = sections[container.FUNCTIONS]
        for _ in range(stream.count("functions", 5)):
            at = stream.position
            self.module.functions.append(self._function(stream))
            self._unique(self.module.functions[-1].name, stream, at)
        _finished(stream, "the functions")

    def _globals(self, stream: Stream) -> None:
        read = self.attributes
        for _ in range(stream.count("globals", 4)):
            at = stream.position
            found = Global(
                read.strings.read(stream), read.types.value(stream), read.constants.read(stream), stream.varint()
            )
            if self.module.version >= (13, 3):
                visibility = stream.u8()
                if visibility > 1:
                    raise stream.fail(f"visibility {visibility} is unknown", stream.position - 1)
                found.visibility = ("public", "private")[visibility]
                found.constant = bool(stream.varint() & 1)
            self._unique(found.name, stream, at)
            self.module.globals.append(found)
        _finished(stream, "the globals")

    def _unique(self, symbol: str, stream: Stream, at: int) -> None:
        if symbol in self.symbols and self.check:
            raise stream.fail(f"a second definition of @{symbol[:80]}", at)
        self.symbols.add(symbol)

    def _function(self, stream: Stream) -> Function:
        name = self.attributes.strings.read(stream)
        at = stream.position
        signature = self.attributes.types.read(stream)
        if not isinstance(signature, FunctionType):
            raise stream.fail(f"function {name!r} has {type(signature).__name__} as its type", at)
        at = stream.position
        flags = stream.u8()
        if flags & ~(_PRIVATE | _ENTRY | _HAS_HINTS):
            raise stream.fail(f"unknown function flags {flags:#x}", at)
        locations = self.debug.of_function(stream.varint())
        hints = self.attributes.hints(stream, tagged=True) if flags & _HAS_HINTS else {}
        body = stream.sub(stream.varint())
        block = Block()
        block.params = [Value(each, block, index) for index, each in enumerate(signature.parameters)]
        loc = self.debug.loc(locations[0]) if locations else None
        reader = _BodyReader(self, body, locations[1:])
        reader.values.extend(block.params)
        while body.left:
            block.ops.append(reader.op(0))
        function = Function(name, signature, block, hints, bool(flags & _ENTRY), loc)
        if self.check:
            check_structure(function, reader.offsets)
        return function


def _finished(stream: Stream, what: str) -> None:
    """Refuse what is left of a section, but for the padding with which cutile-rs fills one up."""
    if stream.left >= _MAX_PADDING or stream.data[stream.position : stream.end].strip(_PADDING):
        stream.finished(what)


class _BodyReader:
    """Reads the operations of one function."""

    def __init__(self, owner: _ModuleReader, stream: Stream, locations: tuple[int, ...]) -> None:
        self.attributes = owner.attributes
        self.debug = owner.debug
        self.layouts = layouts(owner.module.version)
        self.version = owner.module.version
        self.stream = stream
        self.locations = iter(locations)
        # Value number -> value, as far as visible here; a region's values leave when it ends.
        self.values: list[Value] = []
        self.offsets: dict[Op, int] = {}
        read, stream_ = owner.attributes, stream
        self.codings: dict[str, Callable[[], Attribute]] = {
            "int": stream_.varint,
            "str": lambda: read.strings.read(stream_),
            "bool": lambda: boolean(stream_),
            "typeid": lambda: read.types.read(stream_),
            "array": lambda: read.array(stream_),
            "tagged": lambda: read.read(stream_),
            "dense_typed_elements": lambda: read.constants.read(stream_),
            "dense_int32_array": lambda: stream_.integers(4),
            "dense_bool_array": lambda: tuple(bool(each) for each in stream_.integers(1)),
            "optimization_hints": lambda: read.hints(stream_),
        }

    def op(self, depth: int) -> Op:
        """The next operation; its results become visible."""
        stream = self.stream
        at = stream.position
        number = stream.varint()
        layout = self.layouts.get(number)
        if layout is None or layout.name in _STRUCTURE:
            what = f"opcode {number}" if layout is None else f"operation {layout.name} inside a function"
            raise stream.fail(f"{what} is unknown in format {self.version[0]}.{self.version[1]}", at)
        op = Op(layout.name, loc=self.debug.loc(next(self.locations, 0)))
        self.offsets[op] = at
        attributes = op.attributes
        attributes.update(layout.defaults)
        types: list[Type] = []
        present: set[str] = set()
        announced = 0
        for field in layout.fields:
            kind, name = field.kind, field.name
            if field.condition and field.condition not in present:
                continue
            if kind == "operand":
                self._operands(op, name, 1)
            elif kind == "optional_operand":
                if name in present:
                    self._operands(op, name, 1)
            elif kind == "result":
                types.append(self.attributes.types.value(stream))
            elif kind == "enum":
                attributes[name] = self._enum(field)
            elif kind == "flags":
                present = self._flags(field, attributes)
            elif kind == "sized_operands":
                self._operands(op, name, stream.count("operands"))
            elif kind == "results":
                count = stream.count("result types")
                if field.count not in (-1, count):
                    raise stream.fail(f"{layout.name} has {field.count} results, not {count}", at)
                types.extend(self.attributes.types.value(stream) for _ in range(count))
            elif kind == "operand_count":
                announced = stream.count("operands")
            elif kind == "rest_operands":
                if announced < len(op.operands):
                    raise stream.fail(f"{layout.name} has at least {len(op.operands)} operands, not {announced}", at)
                self._operands(op, name, announced - len(op.operands))
            elif kind == "regions":
                self._regions(op, field.count, depth, at)
            else:
                attributes[name] = self.codings[kind]()
        if "inbounds" not in attributes and op.opcode in ("load_view_tko", "store_view_tko", "atomic_red_view_tko"):
            attributes["inbounds"] = (False,) * len(op.group("index"))
        op.results = [Value(each, op, index) for index, each in enumerate(types)]
        self.values.extend(op.results)
        return op

    def _operands(self, op: Op, name: str, count: int) -> None:
        stream, values = self.stream, self.values
        start = len(op.operands)
        for _ in range(count):
            at = stream.position
            number = stream.varint()
            if number >= len(values):
                raise stream.fail(f"{op.opcode} uses value {number}, {len(values)} are visible", at)
            op.operands.append(values[number])
        op.segments[name] = slice(start, start + count)

    def _enum(self, field: Field) -> str:
        number = self.stream.u8()
        text = field.enum.get(number)
        if text is None:
            raise self.stream.fail(f"{field.name} {number} is unknown", self.stream.position - 1)
        return text

    def _flags(self, field: Field, attributes: dict[str, Attribute]) -> set[str]:
        at = self.stream.position
        word = self.stream.varint()
        if word >> len(field.bits):
            raise self.stream.fail(f"unknown flags {word:#x}", at)
        present = set()
        for name, bit, optional in field.bits:
            if not optional:
                attributes[name] = bool(word >> bit & 1)
            elif word >> bit & 1:
                present.add(name)
        return present

    def _regions(self, op: Op, expected: int, depth: int, at: int) -> None:
        stream = self.stream
        if depth >= MAX_DEPTH:
            raise stream.fail(f"regions nest deeper than {MAX_DEPTH}", at)
        count = stream.varint()
        if count != expected:
            raise stream.fail(f"{op.opcode} has {expected} regions, not {count}", at)
        for _ in range(count):
            at = stream.position
            blocks = stream.varint()
            if blocks != 1:
                raise stream.fail(f"a region of {blocks} blocks; only structured control flow is known", at)
            block = Block()
            visible = len(self.values)
            for index in range(stream.count("block parameters")):
                block.params.append(Value(self.attributes.types.value(stream), block, index))
            self.values.extend(block.params)
            for _ in range(stream.count("operations")):
                block.ops.append(self.op(depth + 1))
            del self.values[visible:]
            op.regions.append(block)
