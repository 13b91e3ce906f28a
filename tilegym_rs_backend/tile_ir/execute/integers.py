# SPDX-License-Identifier: MIT
"""Integer arithmetic: two's complement that wraps around; signedness is the operation's, not the type's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import scalar_of
from tilegym_rs_backend.tile_ir.execute.dtypes import signed
from tilegym_rs_backend.tile_ir.execute.dtypes import unsigned
from tilegym_rs_backend.tile_ir.execute.dtypes import wrap_i4
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import binary
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.registry import unary
from tilegym_rs_backend.tile_ir.types import ScalarType

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op

Function = Callable[..., Any]

PLAIN: dict[str, Function] = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
}
_ONE_BIT: dict[str, Function] = {**PLAIN, "addi": np.bitwise_xor, "subi": np.bitwise_xor, "muli": np.bitwise_and}


def wrapped(function: Function, element: ScalarType) -> Function:
    """Return the function with its result wrapped to 4 bits for i4, whose carrier has 8."""
    return (lambda *args: wrap_i4(function(*args))) if element.name == "i4" else function


def plain(opcode: str, element: ScalarType) -> Function:
    """Return addi, subi, muli, andi, ori or xori of an element type."""
    return _ONE_BIT[opcode] if element.name == "i1" else wrapped(PLAIN[opcode], element)


@builds(*PLAIN)
def _plain(op: Op, compiler: Compiler) -> Step:
    return binary(op, compiler, plain(op.opcode, scalar_of(op.result.type)))


def extremum(opcode: str, signedness: str, element: ScalarType) -> Function:
    """Return maxi or mini."""
    function: Function = np.maximum if opcode == "maxi" else np.minimum
    if element.name == "i1" and signedness == "signed":  # true is -1
        return np.bitwise_and if opcode == "maxi" else np.bitwise_or
    return function if signedness == "signed" else _as_unsigned(function)


@builds("maxi", "mini")
def _extremum(op: Op, compiler: Compiler) -> Step:
    return binary(op, compiler, extremum(op.opcode, text(op, "signedness"), scalar_of(op.result.type)))


@builds("absi")
def _absi(op: Op, compiler: Compiler) -> Step:
    return unary(op, compiler, wrapped(np.abs, scalar_of(op.result.type)))


@builds("negi")
def _negi(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    return unary(op, compiler, (lambda x: x) if element.name == "i1" else wrapped(np.negative, element))


@builds("shli")
def _shli(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    if element.name == "i1":  # by 1, the width, nothing is left
        return binary(op, compiler, lambda a, b: a & ~b)
    return binary(op, compiler, wrapped(np.left_shift, element))


@builds("shri")
def _shri(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    if element.name == "i1":  # the only bit is the sign, with which it is filled
        return binary(op, compiler, (lambda a, b: a) if text(op, "signedness") == "signed" else (lambda a, b: a & ~b))
    if text(op, "signedness") == "signed":
        return binary(op, compiler, np.right_shift)
    if element.name == "i4":  # the carrier's upper half repeats the sign
        return binary(op, compiler, lambda a, b: wrap_i4((a & 15) >> b))
    return binary(op, compiler, _as_unsigned(np.right_shift))


@builds("mulhii")
def _mulhii(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    width = element.bits
    function = _high_64 if width == 64 else lambda a, b: _high(a, b, width)
    return binary(op, compiler, wrapped(function, element), "x", "y")


def _high(a: Array, b: Array, width: int) -> Array:
    mask = np.uint64((1 << width) - 1)
    wide = (a.astype(np.uint64) & mask) * (b.astype(np.uint64) & mask)
    return np.asarray((wide >> np.uint64(width)).astype(unsigned(a).dtype).view(a.dtype))


def _high_64(a: Array, b: Array) -> Array:
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = unsigned(a), unsigned(b)
    x_low, x_high, y_low, y_high = x & mask, x >> half, y & mask, y >> half
    middle = x_high * y_low + ((x_low * y_low) >> half)
    cross = x_low * y_high + (middle & mask)
    return signed(x_high * y_high + (middle >> half) + (cross >> half))


@builds("divi")
def _divi(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    if element.name == "i1":  # by the only divisor there is
        return binary(op, compiler, np.bitwise_and)
    function = quotient(text(op, "rounding"))
    if text(op, "signedness") == "unsigned":
        function = _unsigned_of(function, element)
    return binary(op, compiler, wrapped(function, element))


def quotient(rounding: str) -> Function:
    """Return integer division that rounds toward zero, down (``negative_inf``) or up (``positive_inf``)."""

    def down(a: Array, b: Array) -> Array:
        return np.asarray(np.floor_divide(a, b))

    def up(a: Array, b: Array) -> Array:
        floor = np.floor_divide(a, b)
        return np.asarray(floor + (floor * b != a))

    def zero(a: Array, b: Array) -> Array:
        floor = np.floor_divide(a, b)
        return np.asarray(floor + ((floor * b != a) & ((a < 0) != (b < 0))))

    return {"negative_inf": down, "positive_inf": up}.get(rounding, zero)


@builds("remi")
def _remi(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    if element.name == "i1":
        return binary(op, compiler, lambda a, b: a & ~b)
    if text(op, "signedness") == "unsigned":
        return binary(op, compiler, wrapped(_unsigned_of(np.fmod, element), element))
    return binary(op, compiler, np.fmod)  # the sign is the dividend's


def _as_unsigned(function: Function) -> Function:
    return lambda a, b: signed(function(unsigned(a), unsigned(b)))


def _unsigned_of(function: Function, element: ScalarType) -> Function:
    if element.name == "i4":
        return lambda a, b: signed(function(unsigned(a) & 15, unsigned(b) & 15))
    return _as_unsigned(function)


_COMPARE: dict[str, Function] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}


@builds("cmpi")
def _cmpi(op: Op, compiler: Compiler) -> Step:
    function = _COMPARE[text(op, "comparison_predicate")]
    if text(op, "signedness") == "signed":
        lhs = op.operand("lhs")
        if lhs is not None and getattr(lhs.type, "element", None) == ScalarType("i1"):
            # The only bit is the sign: true is -1.
            return binary(op, compiler, lambda a, b: function(b, a))
        return binary(op, compiler, function)
    return binary(op, compiler, lambda a, b: function(unsigned(a), unsigned(b)))
