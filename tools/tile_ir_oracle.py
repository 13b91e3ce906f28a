# SPDX-License-Identifier: MIT
"""Check the reader of Tile IR against ``tileirdisasm``, operation by operation: names, values, types, attributes.

    python tools/tile_ir_oracle.py DIR

reads every ``*.bc`` of a folder, such as tools/tile_ir_capture.py fills.
"""

from __future__ import annotations

import argparse
import collections
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import FloatAttr
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import IntegerAttr
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SameElements
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.types import TensorViewType
from tilegym_rs_backend.tile_ir.types import TileType

_NAME = re.compile(r"%[\w.\-$]+(?:#\d+)?")
_TYPE = re.compile(r"tile<[^<>]*(?:<[^<>]*>)?>|\w+_view<(?:[^<>]|<[^<>]*>)*>|\btoken\b|ptr<\w+>")
_WORD = re.compile(r"0x[0-9A-Fa-f]+|-?\d+\.\d+[eE][+-]?\d+|-?\d+|\?|[a-z_]\w*")
# Words of the grammar that are no attribute's value, and values that a listing leaves out.
_GRAMMAR = frozenset(
    (
        *("rounding", "overflow", "token", "shape", "strides", "dim", "identities", "reverse", "iter_values"),
        *("in", "to", "step", "optimization_hints", "inbounds"),
    )
)
_DEFAULTS = frozenset(("nearest_even", "none", "full", "nearest_int_to_zero"))
_FLOATS = {"f32": "<f", "f64": "<d", "f16": "<e"}
_INTEGERS = {"i8": "<b", "i16": "<h", "i32": "<i", "i64": "<q"}
# Terminators that a listing leaves out where they have no operands.
_SILENT = frozenset(("yield", "continue"))


class Mismatch(Exception):
    """The reader and the disassembler disagree."""


def compare(function: Function, listing: str) -> int:
    """Compare a function with its listing; return how many operations agreed.

    Raises:
        Mismatch: at the first difference.
    """
    lines = [line.strip() for line in listing.splitlines() if line.strip()]
    start = next((i for i, line in enumerate(lines) if re.search(rf"@{re.escape(function.name)}\b", line)), None)
    if start is None:
        raise Mismatch(f"no entry {function.name}")
    header = re.findall(r"(%\w+): ([^%]*?)(?:, (?=%)|\))", lines[start])
    names: dict[str, Value] = {}
    for (name, kind), value in zip(header, function.params, strict=True):
        _same(f"type of {name}", kind, str(value.type))
        names[name] = value
    words = re.search(r"optimization_hints\s*=\s*<(.*)> \{$", lines[start])
    _same(
        "entry hints", collections.Counter(_words(words[1] if words else "")), collections.Counter(_of(function.hints))
    )
    return _Walk(iter(lines[start + 1 :]), names).block(function.body)


def _same(what: str, theirs: object, ours: object) -> None:
    if theirs != ours:
        raise Mismatch(f"{what}: tileirdisasm has {theirs}, the reader {ours}")


class _Walk:
    def __init__(self, lines: Iterator[str], names: dict[str, Value]) -> None:
        self.lines = lines
        self.names = names

    def block(self, block: Block) -> int:
        count = 0
        for op in block.ops:
            if op.opcode in _SILENT and not op.operands and op is block.ops[-1]:
                continue
            line = next(self.lines)
            try:
                count += self.op(op, line)
            except (Mismatch, ValueError, struct.error) as error:
                raise error if "\n" in str(error) else Mismatch(f"{error}\n    {line}") from error
        return count

    def op(self, op: Op, line: str) -> int:
        results, _, rest = line.partition(" = ") if line.startswith("%") else ("", "", line)
        _same("operation", re.match(r"[a-z_0-9$]+", rest)[0], op.opcode)  # type: ignore[index]
        self.operands(op, rest)
        self.types(op, rest)
        self.attributes(op, rest)
        count = 1
        for number, region in enumerate(op.regions):
            if op.opcode in ("reduce", "scan"):
                self.parameters(region, next(self.lines))
            if number:
                line = next(self.lines)
                if line == "}" and _silent(region):
                    break
                _same("else", line, "} else {")
            count += self.block(region)
        else:
            if op.regions:
                _same("end of region", next(self.lines), "}")
        names = [each.strip() for each in results.split(",")] if results else []
        if len(names) == 1 and ":" in names[0]:
            name, number_of = names[0].split(":")
            names = [f"{name}#{i}" for i in range(int(number_of))]
        _same("number of results", len(names), len(op.results))
        self.names.update(zip(names, op.results, strict=True))
        return count

    def operands(self, op: Op, rest: str) -> None:
        expected = list(op.operands)
        text = rest
        if op.opcode == "for":
            text = text.replace(_NAME.search(text)[0], "", 1)  # type: ignore[index]
            self.names[_NAME.search(rest)[0]] = op.regions[0].params[0]  # type: ignore[index]
        if op.opcode in ("for", "loop"):
            carried = op.regions[0].params[op.opcode == "for" :]
            for name, value in zip(re.findall(r"(%[\w.\-]+) = %", text), carried, strict=True):
                self.names[name] = value
            text = re.sub(r"%[\w.\-]+ = (?=%)", "", text)
        found = [self.names.get(name) for name in _NAME.findall(text)]
        if found != expected:
            raise Mismatch(f"operands of {op.opcode} are other values ({len(found)} and {len(expected)})")

    def types(self, op: Op, rest: str) -> None:
        tail = rest.split(" : ", 1)[1] if " : " in rest else rest if op.opcode == "if" else ""
        if op.opcode in ("reduce", "scan"):
            tail = rest.rsplit("] : ", 1)[1]
        written = {each for each in _TYPE.findall(tail) if not each.startswith("ptr")}
        ours = {str(value.type) for value in (*op.operands, *op.results)}
        if not written <= ours:
            raise Mismatch(f"types {sorted(written - ours)} instead of {sorted(ours)}")
        missing = {str(value.type) for value in op.results} - written
        if missing and not missing <= {str(value.type) for value in op.operands}:
            raise Mismatch(f"result types {sorted(missing)} are not in the listing")

    def parameters(self, block: Block, line: str) -> None:
        pairs = re.findall(r"(%[\w.\-]+): (tile<[^ ,)]*>)", line)
        _same("region parameters", [kind for _, kind in pairs], [str(value.type) for value in block.params])
        self.names.update(zip((name for name, _ in pairs), block.params, strict=True))

    def attributes(self, op: Op, rest: str) -> None:
        if op.opcode == "constant":
            return _constant(op, rest)
        head = rest.rsplit("] : ", 1)[0] if op.opcode in ("reduce", "scan") else rest.split(" : ", 1)[0]
        head = _NAME.sub("", head.split(" -> ")[0])
        if op.opcode == "make_tensor_view":
            static = [each for part in re.findall(r"\[(.*?)\]", head) for each in _words(part)]
            view = op.result.type
            assert isinstance(view, TensorViewType)
            return _same("static extents", static, [str(n) for n in (*view.shape, *view.strides) if n is not None])
        head = re.sub(r"\([^)]*\)", "", head) if op.opcode in ("for", "loop") else head
        theirs = collections.Counter(_words(head)[1:])
        ours: list[str] = []
        for name, value in op.attributes.items():
            if isinstance(value, bool) and name != "reverse":
                ours += [name] if value else []
            elif (op.opcode, value) != ("divi", "zero") and (
                name != "inbounds" or (isinstance(value, tuple) and any(value))
            ):
                ours += _of(value)
        return _same(f"attributes of {op.opcode}", theirs, collections.Counter(w for w in ours if w not in _DEFAULTS))


def _silent(block: Block) -> bool:
    # An ``else`` that the listing may leave out.
    return not block.ops or (len(block.ops) == 1 and block.ops[0].opcode in _SILENT and not block.ops[0].operands)


def _words(text: str) -> list[str]:
    return [word for word in _WORD.findall(text) if word not in _GRAMMAR]


def _of(value: Any) -> list[str]:
    if isinstance(value, bool):
        return [str(value).lower()]
    if isinstance(value, Mapping):
        return [word for item in value.items() for part in item for word in _of(part)]
    if isinstance(value, tuple):
        return [word for inner in value for word in _of(inner)]
    if isinstance(value, IntegerAttr):
        return [str(value.value), str(value.type)]
    if isinstance(value, FloatAttr):
        return [_float(value.bits, value.type.name), str(value.type)]
    if isinstance(value, DivBy):
        more = [("every", value.every), ("along", value.along)]
        return ["div_by", str(value.divisor), *(w for name, n in more if n is not None for w in (name, str(n)))]
    if isinstance(value, Bounded):
        return ["bounded", *("?" if end is None else str(end) for end in (value.lower, value.upper))]
    if isinstance(value, SameElements):
        return ["same_elements", *map(str, value.values)]
    return [str(value)]


def _float(bits: int, kind: str) -> str:
    width = {"f64": 64, "f32": 32, "tf32": 32}.get(kind, 16 if kind.endswith("16") else 8)
    if kind in _FLOATS:
        (number,) = struct.unpack(_FLOATS[kind], bits.to_bytes(width // 8, "little"))
        if number in (-1, 0, 1):
            return f"{number:.6e}"
    elif bits == 0:
        return "0.000000e+00"
    return f"0x{bits:0{width // 4}X}"


def _constant(op: Op, rest: str) -> None:
    match = re.match(r"constant <(\w+): (.*)> : tile<", rest)
    if match is None:
        raise Mismatch("a constant in another form")
    kind, written = match[1], re.findall(r"0x[0-9A-Fa-f]+|true|false|-?[\d.]+(?:[eE][+-]?\d+)?", match[2])
    raw, tile = op.attributes["value"], op.result.type
    assert isinstance(raw, bytes)
    assert isinstance(tile, TileType)
    _same("element type", kind, str(tile.element))
    width = max(1, tile.element.bits // 8) if hasattr(tile.element, "bits") else 8
    chunks = [raw[i : i + width] for i in range(0, len(raw), width)]
    chunks = chunks[:1] if len(written) == len(set(chunks)) == 1 else chunks
    _same("number of elements", len(written), len(chunks))
    for text, chunk in zip(written, chunks, strict=True):
        _same("constant", _bits(text, kind), int.from_bytes(chunk, "little") & (1 if kind == "i1" else -1))


def _bits(text: str, kind: str) -> int:
    if text.startswith("0x"):
        return int(text, 16)
    if kind == "i1":
        return int(text == "true")
    if kind in _INTEGERS:
        return int.from_bytes(struct.pack(_INTEGERS[kind], int(text)), "little")
    if kind in _FLOATS:
        return int.from_bytes(struct.pack(_FLOATS[kind], float(text)), "little")
    if kind in ("bf16", "tf32"):
        bits = int.from_bytes(struct.pack("<f", float(text)), "little")
        return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 if kind == "bf16" else bits
    if float(text) == 0:
        return 0
    raise Mismatch(f"a {kind} constant {text} that this check cannot judge")


def check(folder: Path) -> int:
    """Compare every file of ``folder``; print what differs and the totals."""
    from tilegym_rs_backend.errors import TilegymRsError
    from tilegym_rs_backend.tile_ir.disasm import find_tileirdisasm
    from tilegym_rs_backend.tile_ir.reader import read_module
    from tilegym_rs_backend.toolchain.toolkit import find_toolkit

    tool = find_tileirdisasm(find_toolkit().tileiras)
    files = sorted(folder.glob("*.bc"))
    agreed = refused = 0
    opcodes: collections.Counter[str] = collections.Counter()
    versions: collections.Counter[tuple[int, int]] = collections.Counter()
    problems = []
    for path in files:
        done = subprocess.run([str(tool), str(path)], capture_output=True, text=True, errors="replace", check=False)
        try:
            module = read_module(path.read_bytes())
            if done.returncode:
                refused += 1
                continue
            function = module.entry()
            compare(function, done.stdout)
            opcodes.update(op.opcode for _, op in function.body.walk())
        except (TilegymRsError, Mismatch) as error:
            problems.append(f"{path.name}: {error}")
            continue
        versions[module.version] += 1
        agreed += 1
    print("\n".join(problems))
    print(
        f"{len(files)} files: {agreed} agree, {len(problems)} differ, {refused} refused by tileirdisasm; "
        f"{sum(opcodes.values())} operations, {len(opcodes)} of the opcodes; formats {dict(versions)}"
    )
    return int(bool(problems))


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    return check(parser.parse_args().folder)


if __name__ == "__main__":
    sys.exit(main())
