# SPDX-License-Identifier: MIT
"""Types of an operation's operands and results that have to agree: numpy would broadcast where Tile IR does not."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.types import GatherScatterViewType
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import StridedViewType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import Type

_ONE_TYPE = frozenset(
    [
        *("addf", "subf", "mulf", "divf", "fma", "remf", "pow", "atan2", "maxf", "minf", "absf", "negf", "ceil"),
        *("floor", "sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
        *("addi", "subi", "muli", "mulhii", "divi", "remi", "andi", "ori", "xori", "shli", "shri", "maxi", "mini"),
        *("absi", "negi", "assume"),
    ]
)
_ONE_SHAPE = frozenset(
    [
        *("cmpf", "cmpi", "select", "offset", "ftof", "ftoi", "itof", "exti", "trunci", "bitcast", "fpowi"),
        *("int_to_ptr", "ptr_to_int", "ptr_to_ptr"),
    ]
)
_POINTER_ACCESSES = ("load_ptr_tko", "store_ptr_tko", "atomic_rmw_tko", "atomic_cas_tko")
_VIEW_ACCESSES = ("load_view_tko", "store_view_tko", "atomic_red_view_tko")


def check(op: Op) -> None:
    """Check an operation before it is compiled.

    Raises:
        ExecutionError: kind ``"malformed"``: a shape or an element type is not what the others ask for.
    """
    operands, results = [value.type for value in op.operands], [value.type for value in op.results]
    if op.opcode in _ONE_TYPE:
        fits = len(set(operands + results)) == 1
    elif op.opcode in _ONE_SHAPE:
        fits = len(set(map(_shape, operands + results))) == 1
        if op.opcode in ("cmpf", "cmpi"):
            fits = fits and operands[0] == operands[1]
        elif op.opcode == "select":
            fits = fits and operands[1] == operands[2] == results[0]
    elif op.opcode in _POINTER_ACCESSES:
        fits = _pointers(op, results)
    elif op.opcode in _VIEW_ACCESSES:
        tiles = [each for name in ("tile", "value") for each in op.group(name)] or op.results[:1]
        view = op.group("view")[0].type
        fits = _tile_of(view) == _shape(tiles[0].type) and len(op.group("index")) == len(_tile_of(view) or ())
    elif op.opcode == "if":
        fits = str(operands[0]) == "tile<i1>"
    else:
        fits = _moved(op, operands, results)
    if not fits:
        sides = [", ".join(map(str, side[:6])) for side in (operands, results)]
        text = f"types do not fit: {sides[0]} -> {sides[1]}"
        raise ExecutionError("malformed", text, op=op.opcode, loc=op.loc)


def _moved(op: Op, operands: Sequence[Type], results: Sequence[Type]) -> bool:
    """Operations that change a tile's shape, or combine several."""
    shapes, into = [_shape(each) for each in operands], [_shape(each) for each in results]
    first, last = (shapes or [()])[0], (into or [()])[0]
    if op.opcode == "broadcast":
        return len(first) == len(last) and all(a in (1, b) for a, b in zip(first, last, strict=True))
    if op.opcode == "reshape":
        return math.prod(first) == math.prod(last)
    if op.opcode == "permute":
        order = op.attributes["permutation"]
        whole = isinstance(order, tuple) and sorted(str(each) for each in order) == sorted(map(str, range(len(first))))
        return whole and tuple(first[axis] for axis in order if isinstance(axis, int)) == last  # type: ignore[union-attr]
    if op.opcode in ("reduce", "scan"):
        axis = op.attributes["dim"]
        wanted = first
        if op.opcode == "reduce" and isinstance(axis, int):
            wanted = (*first[:axis], *first[axis + 1 :])
        return set(shapes) == {first} and set(into) == {wanted}
    if op.opcode in ("mmaf", "mmai"):
        a, b, c = shapes
        fits = len(a) == len(b) and len(a) >= 2 and a[:-2] == b[:-2] and a[-1] == b[-2]
        return fits and c == last == (*a[:-1], b[-1])
    if op.opcode in ("extract", "insert"):
        small, big = (last, first) if op.opcode == "extract" else (first, last)
        return len(small) == len(big) == len(op.group("indices"))
    return True


def _pointers(op: Op, results: Sequence[Type]) -> bool:
    names = ("source", "destination", "pointers", "mask", "padding_value", "value", "arg", "cmp", "val")
    tiles = [value.type for name in names for value in op.group(name)]
    tiles += [each for each in results if isinstance(each, TileType)]
    # cuTile Python pads with a scalar.
    scalars = [value.type for value in op.group("padding_value") if _shape(value.type) == ()]
    return len({_shape(each) for each in tiles if each not in scalars}) <= 1


def _shape(type: Type) -> tuple[int, ...]:
    return type.shape if isinstance(type, TileType) else ()


def _tile_of(type: Type) -> tuple[int, ...] | None:
    views = (PartitionViewType, StridedViewType, GatherScatterViewType)
    return type.tile if isinstance(type, views) else None
