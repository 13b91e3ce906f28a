# SPDX-License-Identifier: MIT
"""Tile extents that meet in one operation must be one symbol, because rustc compares them as text.

Python compares numbers: a tile of ``(TILE_D,)`` may meet one of ``(64,)``. Union-find over extents; a literal wins over
an expression (the constant is then baked, and the text of a launch with another value differs), the shorter expression
over the longer one.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from tilegym_rs_backend.port.translate.provenance import Expression
from tilegym_rs_backend.port.translate.provenance import expression_of

Extent = int


class Dimensions:
    """The classes of extents of one kernel."""

    def __init__(self, body: Any) -> None:
        self._parent: dict[str, str] = {}
        self._expressions: dict[str, Expression] = {}
        self._block(body, ())

    def representative(self, extent: Extent) -> Expression:
        """The expression that stands for an extent in the text."""
        expression = expression_of(extent)
        root = self._root(str(expression))
        return self._expressions.get(root, expression)

    def _root(self, key: str) -> str:
        while key in self._parent:
            key = self._parent[key]
        return key

    def _unite(self, left: Sequence[Extent], right: Sequence[Extent]) -> None:
        if len(left) != len(right):
            return
        for a, b in zip(left, right, strict=True):
            if int(a) != int(b):
                continue
            roots = []
            for extent in (a, b):
                expression = expression_of(extent)
                root = self._root(str(expression))
                self._expressions.setdefault(root, expression)
                roots.append(root)
            winner, loser = roots
            if winner == loser:
                continue
            if self._rank(loser) < self._rank(winner):
                winner, loser = loser, winner
            self._parent[loser] = winner

    def _rank(self, root: str) -> tuple[bool, int, str]:
        return not self._expressions[root].is_number, len(root), root

    def _block(self, block: Any, carried: Sequence[Any]) -> None:
        for operation in block:
            kind = type(operation).__name__
            rule = _RULES.get(kind)
            if rule is not None:
                rule(operation, self._unite)
            elif kind == "Loop":
                for inside, before, after in zip(
                    operation.body_vars, operation.initial_values, operation.result_vars, strict=True
                ):
                    self._unite(_extents(inside), _extents(before))
                    self._unite(_extents(inside), _extents(after))
                self._block(operation.body, operation.body_vars)
            elif kind in ("Continue", "Break"):
                for value, variable in zip(operation.values, carried, strict=False):
                    self._unite(_extents(value), _extents(variable))
            elif kind == "IfElse":
                for nested in (operation.then_block, operation.else_block):
                    self._block(nested, carried)
                    last: Any = nested[-1] if len(nested) else None
                    if type(last).__name__ == "EndBranch":
                        for value, result in zip(last.outputs, operation.result_vars, strict=True):
                            self._unite(_extents(value), _extents(result))


def _extents(variable: Any) -> tuple[Extent, ...]:
    """A tile's extents, none for a token."""
    return tuple(getattr(variable.get_type(), "shape", ()))


_Unite = Callable[[Sequence[Extent], Sequence[Extent]], None]


def _same(*fields: str) -> Callable[[Any, _Unite], None]:
    """All named operands and the first result have one shape; an absent operand is skipped."""

    def rule(operation: Any, unite: _Unite) -> None:
        result = _extents(operation.result_vars[0])
        for name in fields:
            operand = getattr(operation, name)
            if operand is not None:
                unite(_extents(operand), result)

    return rule


def _permute(operation: Any, unite: _Unite) -> None:
    source = _extents(operation.x)
    unite([source[axis] for axis in operation.axes], _extents(operation.result_vars[0]))


def _reduce(operation: Any, unite: _Unite) -> None:
    for source, result in zip(operation.xs, operation.result_vars, strict=True):
        unite([d for axis, d in enumerate(_extents(source)) if axis != operation.axis], _extents(result))


def _scan(operation: Any, unite: _Unite) -> None:
    for source, result in zip(operation.xs, operation.result_vars, strict=True):
        unite(_extents(source), _extents(result))


def _broadcast(operation: Any, unite: _Unite) -> None:
    for a, b in zip(_extents(operation.x), _extents(operation.result_vars[0]), strict=True):
        unite([a], [b])


def _mma(operation: Any, unite: _Unite) -> None:
    x, y, acc = (_extents(v) for v in (operation.x, operation.y, operation.acc))
    unite([x[-1], x[-2], y[-1]], [y[-2], acc[-2], acc[-1]])
    unite(acc, _extents(operation.result_vars[0]))
    unite(x[:-2], y[:-2])
    unite(x[:-2], acc[:-2])


def _cat(operation: Any, unite: _Unite) -> None:
    result = _extents(operation.result_vars[0])
    for operand in (operation.x, operation.y):
        both = enumerate(zip(_extents(operand), result, strict=True))
        pairs = [pair for axis, pair in both if axis != operation.axis]
        unite([a for a, _ in pairs], [b for _, b in pairs])


def _store_pointer(operation: Any, unite: _Unite) -> None:
    unite(_extents(operation.pointer), _extents(operation.value))
    if operation.mask is not None:
        unite(_extents(operation.pointer), _extents(operation.mask))


def _tile_load(operation: Any, unite: _Unite) -> None:
    unite(operation.view.get_type().tile_shape, _extents(operation.result_vars[0]))


def _tile_store(operation: Any, unite: _Unite) -> None:
    unite(operation.view.get_type().tile_shape, _extents(operation.tile))


def _tile_update(operation: Any, unite: _Unite) -> None:
    unite(operation.view.get_type().tile_shape, _extents(operation.update))


_RULES: dict[str, Callable[[Any, _Unite], None]] = {
    "RawBinaryArithmeticOperation": _same("lhs", "rhs"),
    "RawComparisonOperation": _same("lhs", "rhs"),
    "RawBinaryBitwiseOperation": _same("lhs", "rhs"),
    "RawBitwiseShiftOperation": _same("lhs", "rhs"),
    "RawWhereOperation": _same("cond", "x", "y"),
    "FusedMulAddOperation": _same("lhs", "rhs", "acc"),
    "Unary": _same("operand"),
    "TileAsType": _same("x"),
    "PointerOffset": _same("pointer", "offset"),
    "AssumeDivBy": _same("x"),
    "AssumeBounded": _same("x"),
    "LoadPointer": _same("pointer", "mask"),
    "StorePointer": _store_pointer,
    "TileAtomicRMW": _same("pointer", "update", "mask"),
    "TileAtomicCAS": _same("pointer", "expected", "desired", "mask"),
    "TilePermute": _permute,
    "TileReduce": _reduce,
    "TileScan": _scan,
    "TileBroadcast": _broadcast,
    "TileMma": _mma,
    "TileCat": _cat,
    "TileLoad": _tile_load,
    "TileStore": _tile_store,
    "TileAtomicRedView": _tile_update,
}
