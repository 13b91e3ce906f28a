# SPDX-License-Identifier: MIT
"""Build small kernels for tests: ``b = Kernel(pointer("f32"), I32); x = b("addi", x, y)``."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

from tilegym_rs_backend.tile_ir import types
from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Module
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SourceLoc
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.table import Layout
from tilegym_rs_backend.tile_ir.table import layouts
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TensorViewType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import TokenType

TOKEN = TokenType()
_LAYOUTS = {layout.name: layout for layout in layouts((13, 4)).values()}


def tile(element: str, *shape: int) -> TileType:
    return TileType(shape, ScalarType(element))


def pointer(element: str, *shape: int) -> TileType:
    return TileType(shape, PointerType(ScalarType(element)))


I32 = tile("i32")


def tensor(element: str, rank: int) -> TensorViewType:
    return TensorViewType((None,) * rank, (*(None,) * (rank - 1), 1), ScalarType(element))


def partition(view: TensorViewType, *shape: int, padding: str | None = "zero") -> PartitionViewType:
    return PartitionViewType(shape, view, tuple(range(len(shape))), padding)


class Kernel:
    """A kernel under construction; every call appends an operation, whose source line counts up."""

    def __init__(self, *params: types.Type, name: str = "kernel", file: str = "kernel.rs", **hints: int) -> None:
        self.body = Block()
        self.body.params = [Value(each, self.body, i) for i, each in enumerate(params)]
        self.params = self.body.params
        self.block = self.body
        self.file, self.line = file, 0
        kind = types.FunctionType(tuple(params), ())
        place = SourceLoc(file, 1, 0, name)
        self.function = Function(name, kind, self.body, {"sm_90": dict(hints)} if hints else {}, loc=place)

    def __call__(self, opcode: str, *operands: Value, to: Any = None, **attributes: Any) -> Any:
        """Append an operation; groups and optional operands by name, the rest in order. Returns the result(s)."""
        layout = _LAYOUTS[opcode]
        op = Op(opcode)
        self.line += 1
        op.loc = SourceLoc(self.file, self.line, 1, self.function.name)
        regions = attributes.pop("regions", [])
        self._operands(op, layout, list(operands), attributes)
        for each in layout.fields:
            if each.kind == "flags":
                op.attributes.update({n: bool(attributes.pop(n, False)) for n, _, opt in each.bits if not opt})
            elif each.kind == "enum" and not each.condition:
                op.attributes[each.name] = attributes.pop(each.name, _default(opcode, each.name, each.enum))
            elif each.name == "inbounds":
                op.attributes["inbounds"] = attributes.pop("inbounds", (False,) * len(op.group("index")))
        op.attributes.update(attributes)
        kinds = [] if to is None else list(to) if isinstance(to, (list, tuple)) else [to]
        op.results = [Value(each, op, i) for i, each in enumerate(kinds)]
        op.regions = regions
        self.block.ops.append(op)
        return op.results[0] if len(op.results) == 1 else tuple(op.results)

    @staticmethod
    def _operands(op: Op, layout: Layout, given: list[Value], named: dict[str, Any]) -> None:
        for each in layout.fields:
            if each.kind not in ("operand", "optional_operand", "sized_operands", "rest_operands"):
                continue
            if each.name in named:
                values = named.pop(each.name)
                values = list(values) if isinstance(values, (list, tuple)) else [values]
            elif each.kind == "operand":
                values = [given.pop(0)]
            elif each.kind == "optional_operand":
                continue
            else:
                values, given = given, []
            op.segments[each.name] = slice(len(op.operands), len(op.operands) + len(values))
            op.operands += values

    @contextlib.contextmanager
    def region(self, *params: types.Type) -> Iterator[Block]:
        """Append to a new block inside; give it to an operation as ``regions=[block]`` afterwards."""
        outer, block = self.block, Block()
        block.params = [Value(each, block, i) for i, each in enumerate(params)]
        self.block = block
        yield block
        self.block = outer

    def constant(self, value: float, to: TileType = I32) -> Value:
        assert isinstance(to.element, ScalarType)
        code = {"i1": "<B", "i8": "<b", "i32": "<i", "i64": "<q", "f16": "<e", "f32": "<f"}[to.element.name]
        data = struct.pack(code, value)
        if to.element.name == "i1":  # eight to a byte, so that all bits have to be set
            data = b"\xff" if value else b"\0"
        result: Value = self("constant", to=to, value=data)
        return result

    def reduce(self, combine: str, x: Value, axis: int, to: TileType, identity: Any) -> Value:
        scalar = TileType((), to.element)
        with self.region(scalar, scalar) as block:
            self("yield", self(combine, *block.params, to=scalar))
        result: Value = self("reduce", x, to=to, dim=axis, identities=(identity,), regions=[block])
        return result

    def finish(self) -> Function:
        self("return")
        return self.function

    def module(self, version: tuple[int, int] = (13, 4)) -> Module:
        return Module(version, [self.finish()])


def _default(opcode: str, name: str, enum: Any) -> str:
    defaults = {"rounding_mode": "nearest_even", "rounding": "zero", "signedness": "signed"}
    return defaults.get(name, enum[0])
