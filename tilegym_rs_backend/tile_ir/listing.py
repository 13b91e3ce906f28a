# SPDX-License-Identifier: MIT
"""A small model of a kernel's Tile IR, taken from the text that ``tileirdisasm`` prints.

Enough to say how two kernels differ: operations, tile shapes, families of memory access, reductions, matrix products,
control flow and compiler hints. It follows no values; the text is the tool's, so it holds for both front ends.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from tilegym_rs_backend.errors import CompileError

_HINTS = re.compile(r"optimization_hints\s*=\s*<((?:[^<>]|<[^<>]*>)*)>")
_TARGET = re.compile(r"(\w+)\s*=\s*\{([^}]*)\}")
_ENTRY = re.compile(r"\bentry @(\S+?)\((.*)\)")
_RESULTS = re.compile(r"^(%[^=]*?)\s=\s(?=[a-z])")
_TILE = re.compile(r"tile<((?:\d+x)*)([^<>]+(?:<[^<>]*>)?)>")
_VIEW_TILE = re.compile(r"(\w+_view)<tile=\(([\dx]*)\)")
_PADDING = re.compile(r"padding_value\s*=\s*(\w+)")
_DIM = re.compile(r"\bdim\s*=\s*(\d+)")
_REGION_ARGUMENTS = re.compile(r"^\(%.*\)\s*\{$")
_HINT_NAMES = {"num_cta_in_cga": "num_ctas", "num_worker_warps_per_cta": "num_worker_warps"}
_WORDS = {"true": 1, "false": 0}
LOOPS = ("for", "loop")


@dataclass(frozen=True)
class Operation:
    """One line of the listing: name, the line without results, nesting depth, whether a loop is around it."""

    name: str
    text: str
    depth: int
    in_loop: bool

    @property
    def types(self) -> str:
        """What follows the last `` : ``, the operand and result types."""
        return self.text.rsplit(" : ", 1)[-1] if " : " in self.text else ""

    @property
    def hints(self) -> dict[str, dict[str, int]]:
        """Hints of this operation by target (``"default"``, ``"sm_90"``)."""
        return parse_hints(self.text)


@dataclass(frozen=True)
class Reduction:
    """A reduce or scan: combining operations joined by ``+``, axis, type of what is reduced."""

    kind: str
    combine: str
    axis: int
    operand: str

    def __str__(self) -> str:
        return f"{self.kind}({self.combine}, axis {self.axis}, {self.operand})"


@dataclass(frozen=True)
class KernelIr:
    """The listing of one entry: its name, argument types, hints by target, and operations in order."""

    name: str
    arguments: tuple[str, ...]
    entry_hints: Mapping[str, Mapping[str, int]]
    operations: tuple[Operation, ...]

    @cached_property
    def counts(self) -> Counter[str]:
        """How often each operation occurs."""
        return Counter(operation.name for operation in self.operations)

    def hints(self, arch: str) -> dict[str, int]:
        """Hints in force for ``arch``: the default ones, overridden by the arch's own."""
        return {**self.entry_hints.get("default", {}), **self.entry_hints.get(arch, {})}

    @cached_property
    def families(self) -> Counter[str]:
        """Memory operations by family and direction, such as ``"view load"`` (TMA) or ``"pointer store"``."""
        found: Counter[str] = Counter()
        for operation in self.operations:
            family = memory_family(operation)
            if family:
                found[family] += 1
        return found

    @cached_property
    def accesses(self) -> Counter[str]:
        """Memory operations with the tile they move: ``"view load 1x1024xf16"``."""
        found: Counter[str] = Counter()
        for operation in self.operations:
            family = memory_family(operation)
            if family:
                found[f"{family} {_moved(operation)}"] += 1
        return found

    @cached_property
    def paddings(self) -> Counter[str]:
        """What view loads return outside the tensor: ``"neg_inf"``, ``"zero"``, ``"undetermined"``."""
        found: Counter[str] = Counter()
        for operation in self.operations:
            if operation.name == "load_view_tko":
                match = _PADDING.search(operation.text)
                found[match[1] if match else "undetermined"] += 1
        return found

    @cached_property
    def reductions(self) -> Counter[str]:
        """Reductions and scans, see ``Reduction``."""
        found: Counter[str] = Counter()
        for index, operation in enumerate(self.operations):
            if operation.name in ("reduce", "scan"):
                body = []
                for inner in self.operations[index + 1 :]:
                    if inner.depth <= operation.depth:
                        break
                    if inner.name not in ("yield", "continue"):
                        body.append(inner.name)
                axis = _DIM.search(operation.text)
                operand = operation.types.split(" -> ")[0]
                found[str(Reduction(operation.name, "+".join(body), int(axis[1]) if axis else 0, operand))] += 1
        return found

    @cached_property
    def products(self) -> Counter[str]:
        """Matrix products with their operand types."""
        return Counter(f"{o.name}({o.types})" for o in self.operations if o.name.startswith("mma"))

    @cached_property
    def control(self) -> Counter[str]:
        """Loops and branches; loops with the kinds of value they carry (a carried token orders memory accesses)."""
        found: Counter[str] = Counter()
        for operation in self.operations:
            if operation.name in LOOPS:
                found[f"{operation.name}{_carried(operation)}"] += 1
            elif operation.name == "if":
                found["if"] += 1
        return found

    def operation_hints(self, arch: str) -> Counter[str]:
        """Per-operation hints in force for ``arch``: ``"load_view_tko latency=3"``."""
        found: Counter[str] = Counter()
        for operation in self.operations:
            by_target = operation.hints
            for name, value in {**by_target.get("default", {}), **by_target.get(arch, {})}.items():
                found[f"{operation.name} {name}={value}"] += 1
        return found


def memory_family(operation: Operation) -> str:
    """``"view load"``, ``"pointer store"``, ``"atomic"``, ... or ``""`` for what touches no memory."""
    name = operation.name
    if name.startswith("atomic"):
        return "atomic"
    if name == "load_ptr_tko":
        return "pointer load"
    if name == "store_ptr_tko":
        return "pointer store"
    if name in ("load_view_tko", "store_view_tko"):
        match = _VIEW_TILE.search(operation.text)
        kind = match[1].removesuffix("_view") if match else "partition"
        prefix = "view" if kind == "partition" else f"{kind} view"
        without = any(hints.get("allow_tma") == 0 for hints in operation.hints.values())
        return f"{prefix} {name.split('_')[0]}{' without TMA' if without else ''}"
    return "multimem" if name.startswith("multimem") else ""


def _moved(operation: Operation) -> str:
    """The shape and element type that a memory operation moves."""
    tiles = [(shape, element) for shape, element in _TILE.findall(operation.types) if not element.startswith("ptr")]
    if operation.name.startswith("store"):
        chosen = tiles[0] if tiles else ("", "?")
    else:
        chosen = next((tile for tile in reversed(tiles)), ("", "?"))
    return "".join(chosen)


def _carried(operation: Operation) -> str:
    # "for ... iter_values(...) -> (token, tile<f32>)": the result types are the carried values' types.
    if "iter_values" not in operation.text or " -> " not in operation.text:
        return ""
    kinds = operation.text.rsplit(" -> ", 1)[1]
    tokens = len(re.findall(r"\btoken\b", kinds))
    tiles = len(_TILE.findall(kinds))
    parts = [f"{n} {what}{'s' if n > 1 else ''}" for n, what in ((tiles, "tile"), (tokens, "token")) if n]
    return f" carrying {' and '.join(parts)}" if parts else ""


def parse_hints(text: str) -> dict[str, dict[str, int]]:
    """Hints in a line, by target; names are spelled as cuTile Python's keyword arguments."""
    match = _HINTS.search(text)
    if match is None:
        return {}
    found: dict[str, dict[str, int]] = {}
    for target, body in _TARGET.findall(match[1]):
        values: dict[str, int] = {}
        for pair in filter(None, (part.strip() for part in body.split(","))):
            name, _, value = (piece.strip() for piece in pair.partition("="))
            word = value.split(":")[0].strip()
            number = _WORDS.get(word)
            if number is None and re.fullmatch(r"-?\d+", word):
                number = int(word)
            if number is not None:
                values[_HINT_NAMES.get(name, name)] = number
        found[target] = values
    return found


def parse_listing(text: str) -> tuple[KernelIr, ...]:
    """Parse the output of ``tileirdisasm``; one ``KernelIr`` per entry.

    Raises:
        CompileError: the text holds no entry, so it is no listing.
    """
    kernels: list[KernelIr] = []
    header: re.Match[str] | None = None
    hints: dict[str, dict[str, int]] = {}
    operations: list[Operation] = []
    depth = 0
    open_loops: list[int] = []
    for raw in text.splitlines():
        line = raw.strip()
        entry = _ENTRY.search(line)
        if entry:
            header, hints, operations, depth, open_loops = entry, parse_hints(line), [], 1, []
            continue
        if header is None or not line:
            continue
        if line.startswith("}"):
            depth -= 1
            while open_loops and open_loops[-1] >= depth:
                open_loops.pop()
            if depth == 0:
                arguments = tuple(part.split(": ", 1)[-1] for part in re.split(r", (?=%)", header[2]) if part)
                kernels.append(KernelIr(header[1], arguments, hints, tuple(operations)))
                header = None
            elif line.endswith("{"):
                depth += 1
            continue
        if _REGION_ARGUMENTS.match(line):
            depth += 1
            continue
        body = _RESULTS.sub("", line)
        name = re.split(r"[^\w]", body, maxsplit=1)[0]
        operations.append(Operation(name, body.removesuffix("{").rstrip(), depth, bool(open_loops)))
        if line.endswith("{"):
            if name in LOOPS:
                open_loops.append(depth)
            depth += 1
    if not kernels:
        raise CompileError(
            "tileirdisasm printed no kernel: the bytecode holds no entry, or the tool's format is unknown."
        )
    return tuple(kernels)
