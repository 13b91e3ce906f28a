# SPDX-License-Identifier: MIT
"""Arithmetic, comparison, bits and selection."""

from __future__ import annotations

from typing import Any

from tilegym_rs_backend.port.translate.element_types import bits
from tilegym_rs_backend.port.translate.element_types import is_float
from tilegym_rs_backend.port.translate.element_types import is_unsigned
from tilegym_rs_backend.port.translate.emit_constants import tile_constant
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import emits

_INFIX = {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}
_ROUNDING = {
    "RN": "NearestEven",
    "RZ": "Zero",
    "RM": "NegativeInf",
    "RP": "PositiveInf",
    "APPROX": "Approx",
    "FULL": "Full",
}
FLOOR_DIV = """    /// Python's `//`: rounds toward negative infinity, where Rust's `/` truncates.
    fn floor_div(a: i32, b: i32) -> i32 {
        let x: Tile<i32, { [] }> = scalar_to_tile(a);
        let y: Tile<i32, { [] }> = scalar_to_tile(b);
        let q: Tile<i32, { [] }> = divi(x, y, rounding::NegativeInf);
        tile_to_scalar(q)
    }
"""


def mode(on: bool) -> str:
    """``Enabled`` or ``Disabled``."""
    return "Enabled" if on else "Disabled"


def rounding(operation: Any) -> str | None:
    """The rounding mode's name in cuda.tile, None for the default."""
    return operation.rounding_mode.name if operation.rounding_mode is not None else None


def _element(emitter: Emitter, variable: Any) -> tuple[str, bool]:
    """(Rust element type, whether it is a float); the generic type is always a half float."""
    element = emitter.element(variable.get_type().dtype)
    return element, element == "E" or is_float(element)


@emits(
    "RawBinaryArithmeticOperation", python="+ - * / // minimum maximum, cdiv, **", rust="infix, divi, remi, maxf, pow"
)
def arithmetic(emitter: Emitter, operation: Any) -> None:
    """Infix operators where the DSL lowers them to the same operation, named functions otherwise."""
    text = _scalar_arithmetic(emitter, operation)
    if text is not None:
        emitter.let(operation.result_var, text, Form.SCALAR)
        return
    a, b = emitter.tile(operation.lhs), emitter.tile(operation.rhs)
    _, floating = _element(emitter, operation.result_var)
    if floating and operation.fn == "floordiv":
        quotient = _float_text("truediv", rounding(operation), bool(operation.flush_to_zero), a, b)
        text = f"floor({emitter.temporary('q', emitter.type_of(operation.result_var), quotient)})"
    else:
        text = _float(operation, a, b) if floating else _integer(operation, a, b)
    emitter.let(operation.result_var, text)


def _scalar_arithmetic(emitter: Emitter, operation: Any) -> str | None:
    """The text for two Rust scalars, None where tiles are needed."""
    ty = operation.result_var.get_type()
    if ty.shape != () or not emitter.is_scalar(operation.lhs, operation.rhs):
        return None
    element, name = emitter.element(ty.dtype), operation.fn
    a, b = emitter.scalar(operation.lhs), emitter.scalar(operation.rhs)
    if element == "f32" and name in ("add", "sub", "mul") and rounding(operation) in (None, "RN"):
        return None if operation.flush_to_zero else f"{a} {_INFIX[name]} {b}"
    if element != "i32":
        return None
    if name in ("add", "sub", "mul"):
        return f"{a} {_INFIX[name]} {b}"
    if name == "c_mod":
        return f"{a} % {b}"
    if name in ("min", "max"):
        return f"{name}({a}, {b})"
    if name == "cdiv":
        return f"ceil_div({a}, {b})"
    if name == "floordiv":
        emitter.helpers["floor_div"] = FLOOR_DIV
        return f"floor_div({a}, {b})"
    return None


def _float(operation: Any, a: str, b: str) -> str:
    name, flush = operation.fn, bool(operation.flush_to_zero)
    if name in _INFIX:
        return _float_text(name, rounding(operation), flush, a, b)
    if name in ("min", "max"):
        if operation.propagate_nan or flush:
            return f"{name}f({a}, {b}, nan::{mode(operation.propagate_nan)}, ftz::{mode(flush)})"
        return f"{name}_tile({a}, {b})"
    if name in ("pow", "atan2"):
        return f"{name}({a}, {b})"
    if name == "c_mod":
        return f"remf({a}, {b})"
    raise refused(operation, f"no float operation {name!r} is known", name)


def _float_text(name: str, chosen: str | None, flush: bool, a: str, b: str) -> str:
    if name == "truediv" and chosen == "APPROX" and flush:
        return f"true_div({a}, {b})"
    if chosen in (None, "RN") and not flush:
        return f"{a} {_INFIX[name]} {b}"
    function = {"add": "addf", "sub": "subf", "mul": "mulf", "truediv": "divf"}[name]
    return f"{function}({a}, {b}, rounding::{_ROUNDING[chosen or 'RN']}, ftz::{mode(flush)})"


def _integer(operation: Any, a: str, b: str) -> str:
    name = operation.fn
    if name in ("add", "sub", "mul"):
        return f"{a} {_INFIX[name]} {b}"
    if name in ("min", "max"):
        return f"{name}i({a}, {b})"
    if name == "floordiv":
        return f"divi({a}, {b}, rounding::NegativeInf)"
    if name == "cdiv":
        return f"divi({a}, {b}, rounding::PositiveInf)"
    if name == "c_mod":
        return f"remi({a}, {b})"
    raise refused(operation, f"no integer operation {name!r} is known", name)


@emits("RawBinaryBitwiseOperation", python="& | ^", rust="andi, ori, xori")
def bitwise(emitter: Emitter, operation: Any) -> None:
    """Bitwise operators."""
    function = {"and_": "andi", "or_": "ori", "xor": "xori"}[operation.fn]
    emitter.let(operation.result_var, f"{function}({emitter.tile(operation.lhs)}, {emitter.tile(operation.rhs)})")


@emits("RawBitwiseShiftOperation", python="<< >>", rust="<< >>")
def shift(emitter: Emitter, operation: Any) -> None:
    """Shifts; the element type decides whether a right shift is arithmetic."""
    symbol = {"rshift": ">>", "lshift": "<<"}[operation.fn]
    emitter.let(operation.result_var, f"{emitter.tile(operation.lhs)} {symbol} {emitter.tile(operation.rhs)}")


_SYMBOLS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@emits("RawComparisonOperation", python="< <= > >= == !=", rust="infix, lt_tile .., cmpf")
def comparison(emitter: Emitter, operation: Any) -> None:
    """Comparisons; a float `!=` is unordered in Python and would be ordered through `ne_tile`."""
    name, left = operation.fn, operation.lhs
    element, floating = _element(emitter, left)
    if element == "i32" and operation.result_var.get_type().shape == () and emitter.is_scalar(left, operation.rhs):
        text = f"{emitter.scalar(left)} {_SYMBOLS[name]} {emitter.scalar(operation.rhs)}"
        emitter.let(operation.result_var, text, Form.SCALAR)
        return
    a, b = emitter.tile(left), emitter.tile(operation.rhs)
    if floating and name == "ne":
        text = f"cmpf({a}, {b}, predicate::NotEqual, cmp_ordering::Unordered)"
    else:
        text = f"{name}_tile({a}, {b})"
    emitter.let(operation.result_var, text)


@emits("RawWhereOperation", python="where", rust="select")
def where(emitter: Emitter, operation: Any) -> None:
    """Elementwise selection."""
    a, b, c = (emitter.tile(v) for v in (operation.cond, operation.x, operation.y))
    emitter.let(operation.result_var, f"select({a}, {b}, {c})")


@emits("FusedMulAddOperation", python="a * b + c (contracted by the front end)", rust="fma")
def fused(emitter: Emitter, operation: Any) -> None:
    """Fused multiply-add."""
    a, b, c = (emitter.tile(v) for v in (operation.lhs, operation.rhs, operation.acc))
    chosen = _ROUNDING[rounding(operation) or "RN"]
    emitter.let(operation.result_var, f"fma({a}, {b}, {c}, rounding::{chosen}, ftz::{mode(operation.flush_to_zero)})")


_PLAIN_UNARY = frozenset({"log", "log2", "sin", "cos", "tan", "sinh", "cosh", "floor", "ceil"})


@emits("Unary", python="-x, exp, exp2, tanh, rsqrt, sqrt, log, abs ..", rust="negf, exp, exp2, ..")
def unary(emitter: Emitter, operation: Any) -> None:
    """Elementwise functions of one operand."""
    name, chosen, x = operation.fn, rounding(operation), emitter.tile(operation.operand)
    _, floating = _element(emitter, operation.operand)
    flush, unsafe = f"ftz::{mode(operation.flush_to_zero)}", False
    if name == "neg":
        text = f"negf({x})" if floating else f"negi({x}, overflow::None)"
    elif name in ("exp", "tanh"):
        unsafe = chosen == "APPROX"
        if chosen not in (None, "APPROX", "FULL", "RN"):
            raise refused(operation, f"rounding mode {chosen} is not known", name)
        text = f"{name}_with_rounding({x}, rounding::Approx)" if unsafe else f"{name}({x})"
    elif name in ("exp2", "rsqrt"):
        text = f"{name}({x}, {flush})"
    elif name == "sqrt":
        text = f"sqrt({x}, rounding::{_ROUNDING[chosen or 'RN']}, {flush})"
    elif name in _PLAIN_UNARY:
        text = f"{name}({x})"
    elif name == "abs":
        text = f"absf({x})" if floating else f"absi({x})"
    elif name in ("invert", "bitwise_not"):
        ty = operation.operand.get_type()
        element = emitter.element(ty.dtype)
        ones = tile_constant(emitter, (1 << bits(element)) - 1 if is_unsigned(element) else -1, ty, element)
        text = f"xori({x}, {emitter.temporary('ones', emitter.type_of(operation.operand), ones)})"
    else:
        raise refused(operation, f"no Rust form of {name} is known", name)
    emitter.let(operation.result_var, text, unsafe=unsafe)


@emits("TileMma", python="mma, matmul", rust="mmaf, mmai, mmaf_with_fast_acc")
def multiply(emitter: Emitter, operation: Any) -> None:
    """Matrix multiply-accumulate."""
    x, y, acc = (emitter.tile(v) for v in (operation.x, operation.y, operation.acc))
    element, floating = _element(emitter, operation.x)
    if not floating:
        right = emitter.element(operation.y.get_type().dtype)
        if right != element:  # one Rust type for both operands; the sign is said beside them
            type = emitter.type_of(operation.y).replace(f"<{right},", f"<{element},", 1)
            y = emitter.temporary("bits", type, f"bitcast({y})")
        signs = (f"signedness::{'Unsigned' if is_unsigned(e) else 'Signed'}" for e in (element, right))
        emitter.let(operation.result_var, f"mmai({x}, {y}, {acc}, {', '.join(signs)})")
    elif operation.use_fast_acc:
        text = f"mmaf_with_fast_acc({x}, {y}, {acc}, fast_acc::Enabled)"
        emitter.let(operation.result_var, text, unsafe=True)
    else:
        emitter.let(operation.result_var, f"mmaf({x}, {y}, {acc})")
