# SPDX-License-Identifier: MIT
"""What an operation of a kernel stands for when two kernels are compared: phrases by category."""

from __future__ import annotations

from collections.abc import Iterator

from tilegym_rs_backend.tile_ir.graph import MIRRORED
from tilegym_rs_backend.tile_ir.graph import Graph
from tilegym_rs_backend.tile_ir.liveness import LOOPS
from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.printer import attribute_texts
from tilegym_rs_backend.tile_ir.printer import constant_text
from tilegym_rs_backend.tile_ir.types import GatherScatterViewType
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import StridedViewType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import TokenType

MEMORY_FAMILY, TILE_SHAPE, REDUCTION, MMA, CONTROL, HINT = (
    *("memory_family", "tile_shape", "reduction", "mma", "control", "hint"),
)
ARITHMETIC = "arithmetic"
# The ids are part of reports and of CI gates. ``arithmetic`` is what no other covers.
CATEGORIES = (MEMORY_FAMILY, TILE_SHAPE, REDUCTION, MMA, CONTROL, HINT, ARITHMETIC)

_VIEW_ACCESSES = ("load_view_tko", "store_view_tko", "atomic_red_view_tko")
# What a kernel computes, as opposed to the addresses and masks that one way of reaching memory needs.
_COMPUTE = frozenset(
    [
        *(
            "absf",
            "addf",
            "subf",
            "mulf",
            "divf",
            "fma",
            "remf",
            "negf",
            "maxf",
            "minf",
            "pow",
            "fpowi",
            "sqrt",
            "rsqrt",
        ),
        *("exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan2", "floor", "ceil", "cmpf"),
        *("ftof", "ftoi", "itof", "bitcast", "pack", "unpack", "cat", "rsqrt", "permute", "extract", "insert"),
    ]
)
# One name for what the two front ends' hints call differently.
_HINT_NAMES = {"num_cta_in_cga": "num_ctas", "num_worker_warps_per_cta": "num_worker_warps"}


def hints_in_force(function: Function, arch: str) -> dict[str, int | bool | str]:
    """A kernel's hints for ``arch``: the default ones, overridden by the arch's own."""
    return _in_force(function.hints, arch)


def _in_force(hints: object, arch: str) -> dict[str, int | bool | str]:
    if not isinstance(hints, dict):
        return {}
    merged = {**hints.get("default", {}), **hints.get(arch, {})}
    return {_HINT_NAMES.get(name, name): value for name, value in merged.items()}


def category(op: Op) -> str:
    """The category in which a difference of this operation is reported."""
    if op.opcode.startswith(("load_", "store_", "atomic_", "multimem_", "make_")) or op.opcode == "offset":
        return MEMORY_FAMILY
    if op.opcode in ("reduce", "scan"):
        return REDUCTION
    if op.opcode.startswith("mma"):
        return MMA
    return CONTROL if op.opcode in (*LOOPS, "if") else ARITHMETIC


def features(op: Op, graph: Graph, arch: str) -> Iterator[tuple[str, str]]:
    """The (category, phrase) pairs of one operation."""
    if op.opcode in ("reduce", "scan"):
        yield REDUCTION, _reduction(op)
    elif op.opcode.startswith("mma"):
        types = ", ".join(str(value.type) for value in op.operands)
        yield MMA, " ".join([op.opcode, types, *attribute_texts(op)])
    elif op.opcode in LOOPS:
        yield CONTROL, f"{op.opcode}{_carried(*graph.carried.get(op, (0, 0)))}"
    elif op.opcode == "if":
        yield CONTROL, "if"
    elif op.opcode.startswith(("load_", "store_", "atomic_", "multimem_")):
        yield from _access(op, arch)
    elif op.opcode in _COMPUTE:
        yield ARITHMETIC, " ".join([op.opcode, *(MIRRORED.get(text, text) for text in attribute_texts(op))])


def _access(op: Op, arch: str) -> Iterator[tuple[str, str]]:
    hints = _in_force(op.attributes.get("optimization_hints"), arch)
    direction = op.opcode.split("_")[0]
    family = {"load": "pointer load (gather)", "store": "pointer store (scatter)"}.get(direction, op.opcode)
    details = []
    if op.opcode in _VIEW_ACCESSES:
        view = next((v.type for v in op.group("view")), None)
        kind = {StridedViewType: "strided view", GatherScatterViewType: "gather-scatter view"}.get(type(view), "view")
        tma = "" if kind != "view" else " without TMA" if hints.get("allow_tma") is False else " (TMA)"
        family = f"{kind} {direction}{tma}"
        if direction == "load" and isinstance(view, (PartitionViewType, StridedViewType, GatherScatterViewType)):
            details.append(f"padding {view.padding or 'undetermined'}")
        if isinstance(view, PartitionViewType) and view.dim_map != tuple(range(len(view.dim_map))):
            details.append(f"axes {list(view.dim_map)}")
    else:
        details += ["masked"] if op.group("mask") else []
        details += ["padded"] if op.group("mask") and op.group("padding_value") else []
    words = (op.attributes.get(name) for name in ("mode", "memory_scope", "memory_ordering_semantics"))
    details += [word for word in words if isinstance(word, str) and word != "weak"]
    yield MEMORY_FAMILY, ", ".join([family, *details])
    yield TILE_SHAPE, f"{direction} of {_moved(op)}"
    for name, value in sorted(hints.items()):
        if name != "allow_tma":
            yield HINT, f"{op.opcode} {name}={value}"


def _moved(op: Op) -> str:
    """The tile that a memory operation moves."""
    named = op.group("tile") or op.group("value") or op.group("arg") or op.group("val")
    values: list[Value] = named if not op.opcode.startswith("load") else op.results
    return next((str(value.type) for value in values if isinstance(value.type, TileType)), "?")


def _reduction(op: Op) -> str:
    body: Block = op.regions[0]
    combine = "+".join(inner.opcode for inner in body.ops[:-1]) or "first"
    reverse = " reversed" if op.attributes.get("reverse") else ""
    types = ", ".join(str(value.type) for value in op.operands)
    axis = op.attributes["dim"]
    return f"{op.opcode}({combine}, axis {axis if isinstance(axis, int) else '?'}{reverse}, {types})"


def _carried(tiles: int, tokens: int) -> str:
    parts = [f"{n} {word}{'s' if n > 1 else ''}" for n, word in ((tiles, "tile"), (tokens, "token")) if n]
    return f" carrying {' and '.join(parts)}" if parts else ""


def describe(op: Op) -> str:
    """An operation with where its operands come from, for a difference that no phrase covers."""
    types = ", ".join(str(value.type) for value in (op.results or op.operands))
    inner = constant_text(op) if op.opcode == "constant" else ", ".join(map(_origin, op.operands))
    return " ".join([f"{op.opcode}({inner})", *attribute_texts(op), ":", types])


def _origin(value: Value) -> str:
    if isinstance(value.owner, Op):
        return value.owner.opcode
    return "token" if isinstance(value.type, TokenType) else f"parameter {value.index}"


def describe_value(number: int, graph: Graph, function: Function, numbers: dict[int, int]) -> str:
    """What an assumption is about: ``parameter 3``, or the operation that computes it."""
    if number in numbers:
        return f"parameter {numbers[number]} ({function.params[numbers[number]].type})"
    op = graph.nodes.get(number)
    return op.opcode if op else "a block or loop index"
