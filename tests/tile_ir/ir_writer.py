# SPDX-License-Identifier: MIT
"""Write a module to bytecode: the reader's counterpart for tests, driven by the same table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilegym_rs_backend.tile_ir import model
from tilegym_rs_backend.tile_ir import types
from tilegym_rs_backend.tile_ir.table import Field
from tilegym_rs_backend.tile_ir.table import layouts
from tilegym_rs_backend.tile_ir.typetable import PADDINGS

_SCALARS = ["i1", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "tf32", "f64", "f8E4M3FN", "f8E5M2"]
_TAGS = {name: number for number, name in enumerate(_SCALARS)}
_TAGS.update({"f8E8M0FNU": 18, "f4E2M1FN": 19, "i4": 22, "f8E5M3FNU": 130})
_DYNAMIC = -(1 << 63)


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else ~(value << 1))


def integers(values: Any, width: int) -> bytes:
    return varint(len(values)) + b"".join(int(v).to_bytes(width, "little", signed=True) for v in values)


def table(records: list[bytes], width: int) -> bytes:
    head = varint(len(records))
    if not records:
        return head
    head += bytes(-len(head) % width)
    offset = 0
    for record in records:
        head += offset.to_bytes(width, "little")
        offset += len(record)
    return head + b"".join(records)


class Writer:
    """Collects a file's tables while its functions are written."""

    def __init__(self, version: tuple[int, int]) -> None:
        self.version = version
        self.strings: dict[bytes, int] = {}
        self.constants: dict[bytes, int] = {}
        self.types: dict[bytes, int] = {}
        self.debug: dict[bytes, int] = {}
        self.locations: list[list[int]] = []

    @staticmethod
    def _number(table_: dict[bytes, int], record: bytes) -> bytes:
        return varint(table_.setdefault(record, len(table_)))

    def string(self, text: str) -> bytes:
        return self._number(self.strings, text.encode())

    def constant(self, data: bytes) -> bytes:
        return self._number(self.constants, varint(len(data)) + data)

    def type(self, ty: types.Type) -> bytes:
        new, newest = self.version >= (13, 3), self.version >= (13, 4)
        if isinstance(ty, types.ScalarType):
            record = varint(_TAGS[ty.name])
        elif isinstance(ty, types.PointerType):
            record = b"\x0c" + (b"\0" if newest else b"") + self.type(ty.pointee)
        elif isinstance(ty, types.TileType):
            record = b"\x0d" + self.type(ty.element) + integers(ty.shape, 8)
        elif isinstance(ty, types.TensorViewType):
            dims = [[_DYNAMIC if n is None else n for n in each] for each in (ty.shape, ty.strides)]
            flags = b"\0" if newest else b""
            record = b"\x0e" + flags + self.type(ty.element) + integers(dims[0], 8) + integers(dims[1], 8)
        elif isinstance(ty, types.FunctionType):
            lists = [varint(len(each)) + b"".join(map(self.type, each)) for each in (ty.parameters, ty.results)]
            record = b"\x10" + b"".join(lists)
        elif isinstance(ty, types.TokenType):
            record = b"\x11"
        else:
            padding = bytes([PADDINGS.index(ty.padding)]) if ty.padding else b""
            flags = varint(int(bool(padding)))
            record = (flags if new else b"") + integers(ty.tile, 4)
            if isinstance(ty, types.StridedViewType):
                record += integers(ty.traversal_strides, 4)
            record += self.type(ty.view)
            if isinstance(ty, types.GatherScatterViewType):
                record = b"\x14" + record + varint(ty.sparse_dim)
            else:
                tag = b"\x0f" if isinstance(ty, types.PartitionViewType) else b"\x15"
                record = tag + record + integers(ty.dim_map, 4)
            record += padding if new else flags + padding
        return self._number(self.types, record)

    def entry(self, record: bytes) -> int:
        """Number of a debug entry."""
        return self.debug.setdefault(record, len(self.debug) + 1)

    def subprogram(self, loc: model.SourceLoc) -> int:
        file = varint(self.entry(b"\x02" + self.string(loc.file) + self.string("")))
        unit = varint(self.entry(b"\x01" + file))
        return self.entry(b"\x05" + file + varint(1) + self.string(loc.function) * 2 + unit + varint(1))

    def loc(self, loc: model.SourceLoc | None) -> int:
        if loc is None:
            return 0
        place = self.string(loc.file) + varint(loc.line) + varint(loc.column)
        number = self.entry(b"\x04" + varint(self.subprogram(loc)) + place)
        return self.entry(b"\x06" + varint(number) + varint(self.loc(loc.caller))) if loc.caller else number

    def attribute(self, value: Any) -> bytes:
        if isinstance(value, bool):
            return b"\x03" + bytes([value])
        if isinstance(value, int):
            return self.attribute(model.IntegerAttr(value & 0xFFFFFFFF, types.ScalarType("i32")))
        if isinstance(value, model.IntegerAttr):
            return b"\x01" + self.type(value.type) + varint(value.bits)
        if isinstance(value, model.FloatAttr):
            bits = bytes([value.bits]) if value.type.bits <= 8 else signed(value.bits)
            return b"\x02" + self.type(value.type) + bits
        if isinstance(value, str):
            return b"\x05" + self.string(value)
        if isinstance(value, tuple):
            return b"\x06" + self.array(value)
        if isinstance(value, Mapping):
            return b"\x0a" + self.dictionary(value)
        if isinstance(value, model.DenseAttr):
            return b"\x07" + self.type(value.type) + self.constant(value.data)
        if isinstance(value, model.DivBy):
            return b"\x08" + varint(value.divisor) + self._pair(value.every, value.along)
        if isinstance(value, model.SameElements):
            return b"\x09" + integers(value.values, 8)
        if isinstance(value, model.Bounded):
            return b"\x0c" + self._pair(value.lower, value.upper)
        return b"\x04" + self.type(value)

    @staticmethod
    def _pair(first: int | None, second: int | None) -> bytes:
        flags = (first is not None) | (second is not None) << 1
        return bytes([flags]) + b"".join(signed(each) for each in (first, second) if each is not None)

    def array(self, values: tuple[Any, ...]) -> bytes:
        return varint(len(values)) + b"".join(map(self.attribute, values))

    def dictionary(self, values: Mapping[str, Any]) -> bytes:
        return varint(len(values)) + b"".join(self.string(k) + self.attribute(v) for k, v in values.items())


class BodyWriter:
    """Writes one function's operations and numbers its values."""

    def __init__(self, writer: Writer, locations: list[int]) -> None:
        self.writer = writer
        self.locations = locations
        self.numbers: dict[model.Value, int] = {}
        self.next = 0
        self.by_name = {layout.name: (number, layout) for number, layout in layouts(writer.version).items()}

    def define(self, values: list[model.Value]) -> None:
        for value in values:
            self.numbers[value] = self.next
            self.next += 1

    def op(self, op: model.Op) -> bytes:
        number, layout = self.by_name[op.opcode]
        self.locations.append(self.writer.loc(op.loc))
        out = varint(number)
        results = list(op.results)
        for each in layout.fields:
            if each.condition and each.condition not in op.attributes and each.condition not in op.segments:
                continue
            if each.kind == "result":
                out += self.writer.type(results.pop(0).type)
            elif each.kind == "results":
                out += varint(len(results)) + b"".join(self.writer.type(r.type) for r in results)
            elif each.kind == "regions":
                out += varint(len(op.regions)) + b"".join(map(self.region, op.regions))
            else:
                out += self.field(op, each)
        self.define(op.results)
        return out

    def field(self, op: model.Op, each: Field) -> bytes:
        writer, name = self.writer, each.name
        if each.kind in ("operand", "optional_operand", "rest_operands", "sized_operands"):
            numbers = [varint(self.numbers[value]) for value in op.group(name)]
            return (varint(len(numbers)) if each.kind == "sized_operands" else b"") + b"".join(numbers)
        if each.kind == "operand_count":
            return varint(len(op.operands))
        if each.kind == "flags":
            there = {**op.segments, **op.attributes}
            return varint(sum(bool(there.get(n) if not opt else n in there) << bit for n, bit, opt in each.bits))
        value: Any = op.attributes[name]
        if each.kind == "enum":
            return bytes([next(number for number, text in each.enum.items() if text == value)])
        codings = {
            "int": varint,
            "str": writer.string,
            "bool": lambda v: bytes([v]),
            "typeid": writer.type,
            "array": writer.array,
            "tagged": writer.attribute,
            "dense_typed_elements": writer.constant,
            "dense_int32_array": lambda v: integers(v, 4),
            "dense_bool_array": lambda v: integers(v, 1),
            "optimization_hints": writer.dictionary,
        }
        return codings[each.kind](value)

    def region(self, block: model.Block) -> bytes:
        before = self.next
        self.define(block.params)
        out = b"\x01" + varint(len(block.params)) + b"".join(self.writer.type(p.type) for p in block.params)
        out += varint(len(block.ops)) + b"".join(map(self.op, block.ops))
        self.next = before
        return out


def write_module(module: model.Module) -> bytes:
    """The bytecode of a module."""
    writer = Writer(module.version)
    functions = varint(len(module.functions))
    for function in module.functions:
        locations = [writer.loc(function.loc)]
        writer.locations.append(locations)
        body = BodyWriter(writer, locations)
        body.define(function.params)
        code = b"".join(map(body.op, function.body.ops))
        functions += writer.string(function.name) + writer.type(function.type)
        functions += bytes([function.is_entry << 1 | bool(function.hints) << 2]) + varint(len(writer.locations))
        functions += b"\x0b" + writer.dictionary(function.hints) if function.hints else b""
        functions += varint(len(code)) + code
    globals_ = b""
    for each in module.globals:
        globals_ += writer.string(each.name) + writer.type(each.type) + writer.constant(each.data)
        globals_ += varint(each.alignment)
        if module.version >= (13, 3):
            globals_ += bytes([each.visibility == "private"]) + varint(int(each.constant))
    sections = [(2, 8, functions), (4, 8, table(list(writer.constants), 8)), (3, 8, _debug(writer))]
    sections += [(5, 4, table(list(writer.types), 4))]
    if globals_:
        sections.insert(0, (6, 1, varint(len(module.globals)) + globals_))
    if module.producer:
        sections.append((7, 1, writer.string(module.producer)))
    sections.append((1, 4, table(list(writer.strings), 4)))
    out = b"\x7fTileIR\0" + bytes([*module.version, 0, 0])
    for number, alignment, data in sections:
        out += bytes([number | (0x80 if alignment > 1 else 0)]) + varint(len(data))
        if alignment > 1:
            out += varint(alignment)
            out += b"\xcb" * (-len(out) % alignment)
        out += data
    return out + b"\0"


def _debug(writer: Writer) -> bytes:
    out = varint(len(writer.locations))
    out += bytes(-len(out) % 4)
    start = 0
    for each in writer.locations:
        out += start.to_bytes(4, "little")
        start += len(each)
    out += varint(start)
    out += bytes(-len(out) % 8)
    out += b"".join(n.to_bytes(8, "little") for each in writer.locations for n in each)
    # Entries begin at a multiple of 4 of the section, so the table has to be padded as if it stood alone.
    entries = table(list(writer.debug) or [b"\0"], 4)
    count = varint(len(writer.debug) or 1)
    return out + count + bytes(-(len(out) + len(count)) % 4) + entries[len(count) + -len(count) % 4 :]
