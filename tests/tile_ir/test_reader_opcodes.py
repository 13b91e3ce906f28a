# SPDX-License-Identifier: MIT
"""Every operation, written by cuda-tile's own encoders in every format, reads back as what was passed to them."""

from __future__ import annotations

import functools
import inspect
import re
import typing

import pytest

encodings = pytest.importorskip("cuda.tile._bytecode.encodings")
from cuda.tile._bytecode import attribute as attributes  # noqa: E402
from cuda.tile._bytecode import version as versions  # noqa: E402
from cuda.tile._bytecode import writer as writers  # noqa: E402
from cuda.tile._bytecode.code_builder import NestedBlockBuilder  # noqa: E402
from cuda.tile._bytecode.debug_info import DebugAttrId  # noqa: E402

from tilegym_rs_backend.tile_ir import table  # noqa: E402
from tilegym_rs_backend.tile_ir.model import Bounded  # noqa: E402
from tilegym_rs_backend.tile_ir.model import DivBy  # noqa: E402
from tilegym_rs_backend.tile_ir.model import IntegerAttr  # noqa: E402
from tilegym_rs_backend.tile_ir.reader import read_module  # noqa: E402
from tilegym_rs_backend.tile_ir.types import ScalarType  # noqa: E402

I32 = ScalarType("i32")
HINTS = attributes.make_load_store_hints({"sm_90": attributes.LoadStoreHints(latency=3, allow_tma=False)})
READ_HINTS = {"sm_90": {"allow_tma": False, "latency": 3}}


SOURCE = inspect.getsource(encodings)


@functools.cache
def encoders():
    """Opcode number -> cuda-tile's encoder and its source."""
    found = {}
    for text in re.split(r"^(?=def encode_)", SOURCE, flags=re.MULTILINE)[1:]:
        name = re.match(r"def (\w+)", text)[1]
        found[int(re.search(r"encode_varint\((\d+), _buf\)", text)[1])] = getattr(encodings, name), text
    return found


class Filler:
    """Arguments for an encoder by annotation, and what the reader shall make of them."""

    def __init__(self, types, values, optional, version):
        self.types, self.values, self.optional, self.version = types, values, optional, version
        self.attributes, self.operands = {}, {}
        self.next = 0

    def value(self):
        self.next += 1
        return self.values[self.next % len(self.values)]

    def fill(self, name, annotation, default):
        key = table_name(name)
        if typing.get_origin(annotation) is typing.Union:
            inner = next(a for a in typing.get_args(annotation) if a is not type(None))
            if not self.optional:
                return None
            annotation = inner
        if annotation.__name__ == "TypeId":
            return self.types.I32
        if annotation.__name__ == "Value":
            value = self.value()
            self.operands[key] = [value.value_id]
            return value
        if annotation in (bool, int, str, bytes):
            value = {bool: True, int: 1, str: "text", bytes: b"\1\0\0\0"}[annotation]
            if default is not None:
                value = default
            self.attributes[key] = value
            return value
        if isinstance(annotation, type) and issubclass(annotation, encodings.enum.Enum):
            value = list(annotation)[-1] if default is None else default
            self.attributes[key] = value.name.lower().rstrip("_")
            return value
        if annotation is attributes.AssumePredicate:
            self.attributes[key] = DivBy(8, 2, 1) if self.optional else Bounded(-1, None)
            return attributes.DivBy(8, 2, 1) if self.optional else attributes.Bounded(-1, None)
        if annotation is attributes.OptimizationHints:
            self.attributes[key] = READ_HINTS
            return HINTS
        return self.sequence(key, typing.get_args(annotation)[0], default)

    def sequence(self, key, inner, default):
        if inner.__name__ == "TypeId":
            return [self.types.I32] * 2
        if inner.__name__ == "Value":
            values = [self.value(), self.value()]
            self.operands[key] = [value.value_id for value in values]
            return values
        if inner is attributes.TaggedAttribute:
            self.attributes[key] = (IntegerAttr(7, I32), True)
            return [attributes.Integer.create_i32(7), attributes.Bool(True)]
        values = default if default is not None else [inner(1), inner(0)]
        self.attributes[key] = tuple(values)
        return values


def table_name(name):
    out = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
    return out.rstrip("_")


def too_new(source, name, version):
    """What a field that this format cannot hold has to be, None when it can."""
    line = next(line for line in source.splitlines() if line.strip().startswith(f"{name}:"))
    if "since" not in line or tuple(map(int, line.split("since ")[1].split("."))) <= version:
        return None
    defaults = {"rounding_mode": encodings.RoundingMode.FULL, "overflow": encodings.IntegerOverflow.NONE}
    return {**defaults, "inbounds": [False, False]}.get(name, False)


CASES = [
    (minor, number, layout.name)
    for minor in (1, 2, 3, 4)
    for number, layout in table.layouts((13, minor)).items()
    if layout.name not in ("module", "entry", "global")
]


@pytest.mark.parametrize("optional", [True, False], ids=["all", "least"])
@pytest.mark.parametrize(("minor", "number", "name"), CASES, ids=[f"13.{m}-{name}" for m, _, name in CASES])
def test_operation(minor, number, name, optional):
    function, source = encoders()[number]
    version = getattr(versions.BytecodeVersion, f"V_13_{minor}")
    buf = bytearray()
    with writers.write_bytecode(1, buf, version) as w:
        i32 = w.type_table.I32
        with w.function("f", [i32] * 4, [], True, {}, DebugAttrId(0)) as (builder, params):
            filler = Filler(w.type_table, params, optional, (13, minor))
            arguments = {}
            hints = typing.get_type_hints(function)
            for each in list(inspect.signature(function).parameters)[1:]:
                if (name, minor) == ("print_tko", 1) and "token" in each:
                    arguments[each] = None
                else:
                    arguments[each] = filler.fill(each, hints[each], too_new(source, each, (13, minor)))
            if name == "print_tko" and minor > 1:
                arguments["result_token_type"] = i32
            result = function(builder, **arguments)
            if isinstance(result, NestedBlockBuilder):
                for _ in range(result._num_blocks):
                    with result.new_block([i32]) as inner:
                        encodings.encode_YieldOp(builder, inner)
                result.done()
            encodings.encode_NegIOp(builder, i32, params[0], encodings.IntegerOverflow.NONE)
    body = read_module(bytes(buf), check=False).entry().body
    op, after = body.ops
    assert op.opcode == name
    assert after.opcode == "negi"
    numbers = {value: index for index, value in enumerate(body.params)}
    assert {key: [numbers[v] for v in op.group(key)] for key in op.segments} == filler.operands
    assert dict(op.attributes) == filler.attributes
    assert all(value.type == I32 for value in op.results)
    assert [[p.type for p in region.params] for region in op.regions] == [[I32]] * len(op.regions)
