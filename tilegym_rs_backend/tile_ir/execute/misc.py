# SPDX-License-Identifier: MIT
"""Block numbers, tokens, assumptions, assertions, printing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import element_of
from tilegym_rs_backend.tile_ir.execute.dtypes import item_size
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SameElements
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import Type

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler


@builds("get_tile_block_id")
def _get_tile_block_id(op: Op, compiler: Compiler) -> Step:
    results, dtype = compiler.results(op), carrier(element_of(op.result.type))

    def step(frame: Frame) -> None:
        x, y, _ = frame.run.grid
        rest, first = np.divmod(frame.blocks, x)
        third, second = np.divmod(rest, y)
        for slot, value in zip(results, (first, second, third), strict=True):
            frame.values[slot] = value.astype(dtype)

    return step


@builds("get_num_tile_blocks")
def _get_num_tile_blocks(op: Op, compiler: Compiler) -> Step:
    results, dtype = compiler.results(op), carrier(element_of(op.result.type))

    def step(frame: Frame) -> None:
        for slot, extent in zip(results, frame.run.grid, strict=True):
            frame.values[slot] = np.array([extent], dtype)

    return step


@builds("make_token", "join_tokens", "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko")
def _token(op: Op, compiler: Compiler) -> Step:
    # A launch stands alone here, so that waiting for the one before it orders nothing.
    operands = [compiler.read(value) for value in op.operands]
    target = compiler.slot(op.result)

    def step(frame: Frame) -> None:
        token = 0
        for slot in operands:
            token |= frame.values[slot]
        frame.values[target] = token

    return step


@builds("assume")
def _assume(op: Op, compiler: Compiler) -> Step:
    source, target, site = compiler.use(op, "value"), compiler.slot(op.result), Site.of(op)
    predicate = op.attributes["predicate"]
    _fits(op, predicate)
    # cuTile Python claims divisibility of the literal strides of extents of 1, which nothing uses.
    value_op = op.operands[0].owner
    rise = _step(op.operands[0].type)
    literal = isinstance(value_op, Op) and value_op.opcode == "constant"

    def step(frame: Frame) -> None:
        value = frame.values[source]
        frame.values[target] = value
        if literal or not frame.run.options.checks or not isinstance(value, np.ndarray):
            return
        holds = _holds(predicate, value, rise)
        if not holds.all():
            wrong = np.argwhere(~holds)[0]
            row, rest = int(wrong[0]), tuple(wrong[1:].tolist())
            found = value[tuple(wrong.tolist())] if holds.shape == value.shape else value[row]
            raise site.error(
                "assume",
                f"{_describe(predicate)} is false: the value is {found}"
                + (f" at {list(rest)}" if rest else "")
                + "; the specialization does not fit the arguments, or the kernel promises too much",
                frame.run.coordinates(int(frame.blocks[row])),
            )

    return step


def _holds(predicate: Any, value: Array, step: int) -> Array:
    if isinstance(predicate, DivBy):
        mask = predicate.divisor - 1  # a power of two
        if value.dtype != np.bool_ and value.dtype.itemsize < 8:
            value = value.astype(np.int64)
        if predicate.every is not None and predicate.along is not None:
            return _rising(value, predicate.every, predicate.along + 1, mask, step)
        return np.asarray((value & mask) == 0) if mask else np.ones(value.shape, np.bool_)
    if isinstance(predicate, Bounded):
        if value.dtype == np.bool_:  # the only bit is the sign
            value = -value.astype(np.int8)
        above = True if predicate.lower is None else value >= predicate.lower
        below = True if predicate.upper is None else value <= predicate.upper
        return np.broadcast_to(np.logical_and(above, below), value.shape)
    if isinstance(predicate, SameElements):
        holds = np.ones(value.shape, np.bool_)
        for axis, run in enumerate(predicate.values):
            if run > 1:
                first = np.take(value, np.arange(value.shape[axis + 1]) // run * run, axis + 1)
                holds &= (value == first) | ((value != value) & (first != first))
        return holds
    return np.ones(value.shape, np.bool_)


def _rising(value: Array, every: int, axis: int, mask: int, step: int) -> Array:
    """Each group of `every` along an axis begins with a multiple, and rises by `step` from there."""
    place = np.arange(value.shape[axis])
    first = np.take(value, place // every * every, axis)
    rise = (place % every * step).reshape(-1, *(1,) * (value.ndim - axis - 1))
    return np.asarray(((first & mask) == 0) & (value == first + rise))


def _fits(op: Op, predicate: Any) -> None:
    """Refuse a predicate that says nothing of values of its operand's type."""
    type = op.operands[0].type
    rank = len(type.shape) if isinstance(type, TileType) else 0
    element = type.element if isinstance(type, TileType) else None
    numbers = isinstance(element, PointerType) or (isinstance(element, ScalarType) and element.is_integer)
    wrong = ""
    if isinstance(predicate, DivBy):
        if predicate.divisor & (predicate.divisor - 1) or predicate.divisor >> 63:
            wrong = "the divisor is no power of two"
        elif (predicate.every is None) != (predicate.along is None) or (
            predicate.every is not None and not (predicate.every > 0 and 0 <= (predicate.along or 0) < rank)
        ):
            wrong = "every and along do not fit the operand"
        elif isinstance(type, TileType) and not numbers:
            wrong = "its operand has no divisors"
    elif isinstance(predicate, SameElements):
        if len(predicate.values) != rank or min(predicate.values, default=1) < 1 or not numbers:
            wrong = "it does not fit the operand"
    elif isinstance(predicate, Bounded):
        low = -(1 << 63) if predicate.lower is None else predicate.lower
        if not isinstance(element, ScalarType) or not numbers:
            wrong = "its operand has no order"
        elif predicate.upper is not None and predicate.upper < low:
            wrong = "its bounds exclude each other"
        elif element.name != "i1" and not all(
            each is None or -(1 << (element.bits - 1)) <= each < 1 << (element.bits - 1)
            for each in (predicate.lower, predicate.upper)
        ):
            wrong = "its operand has no such numbers"
    else:
        wrong = "it is no predicate"
    if wrong:
        raise ExecutionError("malformed", f"{_describe(predicate)}: {wrong}", op=op.opcode, loc=op.loc)


def _step(type: Type) -> int:
    """By how much the elements of a group rise: pointers by an element's bytes."""
    element = type.element if isinstance(type, TileType) else None
    return item_size(element.pointee) if isinstance(element, PointerType) else 1


def _describe(predicate: Any) -> str:
    if isinstance(predicate, DivBy):
        return f"the assumption that it divides by {predicate.divisor}"
    if isinstance(predicate, Bounded):
        return f"the assumption that it lies in {predicate.lower}..{predicate.upper}"
    return f"the assumption {predicate}"


@builds("assert")
def _assert(op: Op, compiler: Compiler) -> Step:
    condition, message, site = compiler.use(op, "condition"), text(op, "message"), Site.of(op)

    def step(frame: Frame) -> None:
        value = frame.values[condition]
        if not value.all():
            row = int(np.argwhere(~value)[0][0])
            raise site.error("assert", message, frame.run.coordinates(int(frame.blocks[row])))

    return step


_CONVERSION = re.compile(r"%%|%[-+ #0-9.]*(?:hh|h|ll|l)?[diouxXeEfFgG]|\{[^}]*\}")


def _fill(form: str, shown: Iterator[str]) -> str:
    def one(match: re.Match[str]) -> str:
        return "%" if match.group() == "%%" else next(shown, match.group())

    return _CONVERSION.sub(one, form)


@builds("print_tko")
def _print(op: Op, compiler: Compiler) -> Step:
    form, operands = text(op, "str"), compiler.use_group(op, "args")
    token_slot, results = compiler.use_optional(op, "token"), compiler.results(op)

    def step(frame: Frame) -> None:
        for row in range(frame.n):
            values = [frame.values[slot] for slot in operands]
            shown = iter([str(value[row if len(value) > 1 else 0].tolist()) for value in values])
            frame.run.options.printer(_fill(form, shown))
        for slot in results:
            frame.values[slot] = 0 if token_slot is None else frame.values[token_slot]

    return step
