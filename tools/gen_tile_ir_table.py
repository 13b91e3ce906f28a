# SPDX-License-Identifier: MIT
"""Write the table of Tile IR operations from the installed cuda-tile.

cuda-tile's ``_bytecode/encodings.py`` is itself machine-made: one writer function per operation, all of one build. This
walks its syntax tree and keeps the facts of the format: opcode, field order, names, kinds, enums, first version.

    python tools/gen_tile_ir_table.py [--check]
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "tilegym_rs_backend" / "tile_ir" / "opcodes.json"
MODULE = "cuda.tile._bytecode.encodings"

# encode_*Op functions whose operation has another name in the dialect than its function suggests.
RENAMED = {"FPowF": "pow"}
RENAMED_ENUMERATORS = {"None_": "none"}


def snake(name: str) -> str:
    """``LoadViewTko`` -> ``load_view_tko``, ``MmaFScaled`` -> ``mmaf_scaled``; lone capitals stay with their word."""
    pieces = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]*|[a-z0-9]+", name)
    words: list[str] = []
    glue = False
    for piece in pieces:
        lone = len(piece) == 1 and piece.isupper()
        if words and (lone or glue):
            words[-1] += piece.lower()
        else:
            words.append(piece.lower())
        glue = lone and len(words[-1]) == 1
    return "_".join(words)


def operation_name(name: str) -> str:
    """The dialect's name of the operation that ``encode_<name>Op`` writes."""
    if name.startswith("Preview"):
        return f"preview${snake(name.removeprefix('Preview'))}"
    return RENAMED.get(name) or snake(name)


def field_name(name: str) -> str:
    """``lowerBound`` -> ``lower_bound``, ``from_`` -> ``from``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().rstrip("_")


def since(test: ast.expr) -> str | None:
    """``"13.3"`` for a comparison with a bytecode version, None for any other test."""
    match = re.fullmatch(r"code_builder\.version >= BytecodeVersion\.V_(\d+)_(\d+)", ast.unparse(test))
    return f"{match[1]}.{match[2]}" if match else None


class _Encoder:
    """Collects the fields that one writer function writes, in order."""

    def __init__(self, function: ast.FunctionDef) -> None:
        self.function = function
        self.fields: list[dict[str, Any]] = []
        self.since: str | None = None
        self.optional: str | None = None
        self.pending_flags: list[dict[str, Any]] | None = None

    def fail(self, node: ast.AST) -> None:
        raise SystemExit(
            f"{self.function.name}: unknown construct, line {getattr(node, 'lineno', 0)}: {ast.unparse(node)}"
        )

    def add(self, kind: str, name: str, **more: Any) -> None:
        entry: dict[str, Any] = {"kind": kind, "name": field_name(name), **more}
        if self.since:
            entry["since"] = self.since
        if self.optional:
            entry["if"] = self.optional
        self.fields.append(entry)

    def run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If):
            version = since(node.test)
            if version:
                before, self.since = self.since, version
                self.run(node.body)
                self.since = before
                self.default(node.orelse)
            elif isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.IsNot):
                self.optional = field_name(ast.unparse(node.test.left))
                self.run(node.body)
                self.optional = None
            else:
                self.fail(node)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_flag_bits":
            self.pending_flags = self.flags(node.value)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Call):
            if ast.unparse(node.value.func) == "code_builder.new_op_with_nested_blocks":
                self.add("regions", "regions", count=ast.literal_eval(node.value.args[1]))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            self.call(node.value)

    def default(self, body: list[ast.stmt]) -> None:
        """Note what an older file, which cannot hold the field, means: ``else: assert overflow == Overflow.NONE``."""
        for statement in body:
            test = statement.test if isinstance(statement, ast.Assert) else None
            value = test.comparators[0] if isinstance(test, ast.Compare) else None
            if isinstance(value, ast.Attribute):
                self.fields[-1]["default"] = enumerator(value.attr)

    def call(self, node: ast.Call) -> None:
        function, last = ast.unparse(node.func), ast.unparse(node.args[-1] if len(node.args) == 1 else node.args[0])
        if function == "encode_varint":
            self.varint(node.args[0])
        elif function in SIMPLE_CALLS:
            kind, named = SIMPLE_CALLS[function]
            more: dict[str, Any] = {}
            if kind == "results" and isinstance(node.args[0], ast.Tuple):
                more = {"names": [field_name(ast.unparse(each)) for each in node.args[0].elts]}
            self.add(kind, last if named else "results", **more)
        elif function.startswith("code_builder.encode_opattr_"):
            kind = function.removeprefix("code_builder.encode_opattr_")
            self.add(kind, ast.unparse(node.args[-1]), **({"enum": last} if kind == "enum" else {}))
        elif not function.endswith(".append"):
            self.fail(node)

    def varint(self, value: ast.expr) -> None:
        text = ast.unparse(value)
        if isinstance(value, ast.Constant):
            self.add("opcode", "opcode", value=value.value)
        elif "len(" in text:
            self.add("operand_count", "count")
        elif text.startswith("int(") and text.endswith(" is not None)"):
            self.add("flags", "flags", bits=[{"name": field_name(text[4:].split()[0]), "bit": 0, "present": True}])
        else:
            self.add("flags", "flags", bits=self.pending_flags if text == "_flag_bits" else self.flags(value))

    def flags(self, value: ast.expr, bit: int = 0) -> list[dict[str, Any]]:
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
            return self.flags(value.left) + self.flags(value.right)
        if isinstance(value, ast.BinOp) and isinstance(value.op, ast.LShift):
            return self.flags(value.left, ast.literal_eval(value.right))
        if isinstance(value, ast.Compare):
            return [{"name": field_name(ast.unparse(value.left)), "bit": bit, "present": True}]
        if isinstance(value, ast.Call) and ast.unparse(value.func) == "bool":
            return [{"name": field_name(ast.unparse(value.args[0])), "bit": bit, "present": False}]
        self.fail(value)
        return []


SIMPLE_CALLS = {
    "encode_typeid": ("result", True),
    "encode_sized_typeid_seq": ("results", False),
    "encode_operand": ("operand", True),
    "encode_optional_operand": ("optional_operand", True),
    "encode_sized_variadic_operands": ("sized_operands", True),
    "encode_unsized_variadic_operands": ("rest_operands", True),
}


def operation(function: ast.FunctionDef, text: str) -> tuple[int, dict[str, Any]]:
    """One writer function as (opcode, entry)."""
    encoder = _Encoder(function)
    encoder.run(function.body)
    opcode = encoder.fields[0]
    if opcode["kind"] != "opcode":
        encoder.fail(function)
    entry: dict[str, Any] = {"name": operation_name(function.name.removeprefix("encode_").removesuffix("Op"))}
    header = re.search(rf"def {function.name}\([^\n]*# (?:since (\d+\.\d+)|(preview))", text)
    if header:
        entry["since"] = header[1] or header[2]
    entry["fields"] = encoder.fields[1:]
    return opcode["value"], entry


def table(source: Path) -> dict[str, Any]:
    """The whole table, as it is written to ``opcodes.json``."""
    text = source.read_text()
    enums: dict[str, dict[str, str]] = {}
    operations: dict[int, dict[str, Any]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef):
            enums[node.name] = {
                str(ast.literal_eval(item.value)[0]): enumerator(ast.unparse(item.targets[0]))
                for item in node.body
                if isinstance(item, ast.Assign)
            }
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("encode_"):
            number, entry = operation(node, text)
            operations[number] = entry
    used = {each["enum"] for entry in operations.values() for each in entry["fields"] if "enum" in each}
    return {
        "enums": {name: enums[name] for name in sorted(used)},
        "operations": {str(number): operations[number] for number in sorted(operations)},
    }


def enumerator(name: str) -> str:
    """``NEAREST_EVEN`` -> ``nearest_even``."""
    return RENAMED_ENUMERATORS.get(name, name.lower())


def find_source() -> Path | None:
    """The installed ``encodings.py``, None without cuda-tile; the package itself is not imported."""
    try:
        package = importlib.util.find_spec("cuda")
    except (ImportError, ValueError):
        package = None
    for folder in (package.submodule_search_locations or []) if package else []:
        source = Path(folder, *MODULE.split(".")[1:]).with_suffix(".py")
        if source.is_file():
            return source
    return None


def render(content: dict[str, Any]) -> str:
    """The file's text: one line per enum and per operation, so that a change reads well in a diff."""
    parts = []
    for section in ("enums", "operations"):
        lines = ",\n".join(f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in content[section].items())
        parts.append(f"  {json.dumps(section)}: {{\n{lines}\n  }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> int:
    """Write the table, or with ``--check`` say whether the committed one is what would be written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when the file is out of date")
    options = parser.parse_args()
    source = find_source()
    if source is None:
        print(f"{MODULE} is not installed: pip install 'tilegym-rs[ported]'", file=sys.stderr)
        return 2
    text = render(table(source))
    if options.check:
        return int(text != TARGET.read_text())
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
