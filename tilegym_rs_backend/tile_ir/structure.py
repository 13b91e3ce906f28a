# SPDX-License-Identifier: MIT
"""Check that control flow fits together, so that who walks a module need not: terminators, numbers of values, types."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence

from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import FloatAttr
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import IntegerAttr
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SameElements
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.stream import TileIrError
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import TileType

TERMINATORS = frozenset(("yield", "continue", "break", "return"))
_REDUCTIONS = ("reduce", "scan")
_PREDICATES = (Bounded, DivBy, SameElements)
# How a region may end: of an ``if`` also with the way out of what is around it.
_ENDS = {
    "function": ("return",),
    "if": ("yield", "continue", "break", "return"),
    "for": ("continue", "return"),
    "loop": ("continue", "break", "return"),
    "reduce": ("yield",),
    "scan": ("yield",),
}


def check_structure(function: Function, offsets: Mapping[Op, int]) -> None:
    """Check a function; ``offsets`` says where its operations lie in the file.

    Raises:
        TileIrError: a block without terminator or with one in its middle, a way out of nothing, a number or the types
            of carried, yielded or reduced values that do not fit.
    """
    _Checker(offsets).block(function.body, "function", None, None)


class _Checker:
    def __init__(self, offsets: Mapping[Op, int]) -> None:
        self.offsets = offsets

    def fail(self, op: Op | None, message: str) -> TileIrError:
        return TileIrError(message, self.offsets[op] if op is not None else max(self.offsets.values(), default=0))

    def block(self, block: Block, kind: str, parent: Op | None, loop: Op | None) -> None:
        """Check a block: ``parent`` is the operation it belongs to, ``loop`` the one that continue and break mean."""
        last = block.ops[-1] if block.ops else None
        if last is None or last.opcode not in _ENDS[kind]:
            ends = f"with {last.opcode}" if last else "without an operation"
            raise self.fail(last or parent, f"a block of {kind} ends {ends}, not with {' or '.join(_ENDS[kind])}")
        for op in block.ops:
            if op.opcode in TERMINATORS and op is not last:
                raise self.fail(op, f"{op.opcode} in the middle of a block")
            if op.opcode == "assume" and not isinstance(op.attributes["predicate"], _PREDICATES):
                raise self.fail(op, "assume without a predicate")
            if op.regions:
                self.regions(op, kind, loop)
        self.terminator(last, parent, loop)

    def regions(self, op: Op, kind: str, loop: Op | None) -> None:
        if kind in _REDUCTIONS:
            raise self.fail(op, f"{op.opcode} inside a {kind}")
        if op.opcode in ("for", "loop"):
            start = op.group("init_values")
            params = op.regions[0].params[op.opcode == "for" :]
            self.fits(op, "starting values and parameters", start, params)
            if op.opcode == "for":
                bounds = [op.operands[i] for i in range(3)]
                self.fits(op, "bounds and index", bounds, op.regions[0].params[:1] * 3)
                self.fits(op, "starting values and results", start, op.results)
            loop = op
        elif op.opcode in _REDUCTIONS:
            self.reduction(op)
            loop = None
        elif op.opcode == "if":
            if any(region.params for region in op.regions):
                raise self.fail(op, "a region of if has parameters")
        else:
            raise self.fail(op, f"{op.opcode} has regions")
        for region in op.regions:
            self.block(region, op.opcode, op, loop)

    def reduction(self, op: Op) -> None:
        counts = len(op.operands), len(op.results), len(op.regions[0].params)
        if not op.operands or counts != (counts[0], counts[0], 2 * counts[0]):
            raise self.fail(op, f"{op.opcode} of {counts[0]} tiles has {counts[1]} results, {counts[2]} parameters")
        identities, dim = op.attributes["identities"], op.attributes["dim"]
        if not isinstance(identities, tuple) or len(identities) != counts[0]:
            raise self.fail(op, f"{op.opcode} of {counts[0]} tiles has other identities")
        if not all(isinstance(each, (bool, IntegerAttr, FloatAttr)) for each in identities):
            raise self.fail(op, f"{op.opcode} with an identity that is no number")
        for value in op.operands:
            if not isinstance(value.type, TileType) or isinstance(value.type.element, PointerType):
                raise self.fail(op, f"{op.opcode} of {value.type}")
            if not isinstance(dim, int) or dim >= len(value.type.shape):
                raise self.fail(op, f"{op.opcode} along axis {dim!r} of {value.type}")

    def terminator(self, op: Op, parent: Op | None, loop: Op | None) -> None:
        if op.opcode == "yield" and parent is not None:
            if parent.opcode == "if":
                self.fits(op, "yielded values and results", op.operands, parent.results)
            elif len(op.operands) != len(parent.results):
                raise self.fail(op, f"{parent.opcode} of {len(parent.results)} yields {len(op.operands)}")
        elif op.opcode in ("continue", "break"):
            if loop is None or (op.opcode == "break" and loop.opcode != "loop"):
                raise self.fail(op, f"{op.opcode} outside a loop that it could leave")
            if op.opcode == "continue":
                self.fits(
                    op, "continued values and parameters", op.operands, loop.regions[0].params[loop.opcode == "for" :]
                )
            else:
                self.fits(op, "values of break and results", op.operands, loop.results)

    def fits(self, op: Op, what: str, given: Sequence[Value], wanted: Sequence[Value]) -> None:
        types = [[str(value.type) for value in side] for side in (given, wanted)]
        if types[0] != types[1]:
            raise self.fail(op, f"{what} of {op.opcode} do not fit: {_few(types[0])} and {_few(types[1])}")


def _few(names: Sequence[str], most: int = 4) -> str:
    return f"({', '.join(names[:most])}{', ..' if len(names) > most else ''})"
