# SPDX-License-Identifier: MIT
"""Float arithmetic: computed in float32 (or float64) and rounded to the type, in every mode, with ftz."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.by_torch import by_torch
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import scalar_of
from tilegym_rs_backend.tile_ir.execute.exact import corrected
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import binary
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import flag
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.registry import unary
from tilegym_rs_backend.tile_ir.execute.rounding import FORMATS
from tilegym_rs_backend.tile_ir.execute.rounding import NEAREST
from tilegym_rs_backend.tile_ir.execute.rounding import directed_f64
from tilegym_rs_backend.tile_ir.execute.rounding import flush
from tilegym_rs_backend.tile_ir.execute.rounding import round_to
from tilegym_rs_backend.tile_ir.execute.rounding import rounder
from tilegym_rs_backend.tile_ir.execute.rounding import to_odd
from tilegym_rs_backend.tile_ir.execute.rounding import twice_rounded
from tilegym_rs_backend.tile_ir.execute.rounding import two_product
from tilegym_rs_backend.tile_ir.execute.rounding import two_sum
from tilegym_rs_backend.tile_ir.execute.rounding import zero_sum
from tilegym_rs_backend.tile_ir.types import ScalarType

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op

Function = Callable[..., Any]

PLAIN: dict[str, Function] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "sqrt": np.sqrt,
}
_WIDE: dict[str, Function] = {
    "exp": by_torch("exp"),
    "exp2": by_torch("exp2"),
    "log": by_torch("log"),
    "log2": np.log2,
    "sin": by_torch("sin"),
    "cos": by_torch("cos"),
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
}


def arithmetic(opcode: str, element: ScalarType, mode: str, ftz: bool) -> Function:
    """Return addf, subf, mulf, divf or sqrt of an element type, correctly rounded in `mode`."""
    if mode in NEAREST:
        plain = PLAIN[opcode]
        # float32 has more than twice a half type's bits and two more: rounding its result once more is exact.
        rounding = None if element.name == "f32" else rounder(element)
        function = plain if rounding is None else (lambda *args: rounding(plain(*args)))
    else:
        function = _directed(opcode, element, mode)
    return flushed(function) if ftz else function


def flushed(function: Function) -> Function:
    """Return the function with denormal operands and results taken as zeros of their sign."""
    return lambda *args: flush(function(*map(flush, args)))


def _directed(opcode: str, element: ScalarType, mode: str) -> Function:
    exact = _EXACT[opcode]

    def function(*args: Array) -> Array:
        wide = tuple(arg.astype(np.float64) for arg in args)
        value, error = exact(*wide)
        if mode == "negative_inf" and opcode in ("addf", "subf"):
            value = zero_sum(value, wide[0], wide[1] if opcode == "addf" else -wide[1])
        if element.name == "f64":
            value = directed_f64(value, error, mode)
            return value if opcode == "sqrt" else corrected(value, opcode, mode, wide)
        return round_to(to_odd(value, error), FORMATS[element.name], mode)

    return function


def _exact_quotient(a: Array, b: Array) -> tuple[Array, Array]:
    quotient = a / b
    product, error = two_product(quotient, b)
    rest = (a - product) - error
    return quotient, np.where(np.isfinite(rest), rest * np.sign(b), 0.0)


def _exact_root(a: Array) -> tuple[Array, Array]:
    # Far from 1 the product of two roots is not exact; a power of four changes nothing else.
    scale = np.where(a > 2.0**500, 2.0**-200, np.where(a < 2.0**-500, 2.0**400, 1.0))
    a = a * scale
    root = np.sqrt(a)
    product, error = two_product(root, root)
    rest = (a - product) - error
    return root / np.sqrt(scale), np.where(np.isfinite(rest), rest, 0.0)


_EXACT: dict[str, Callable[..., tuple[Array, Array]]] = {
    "addf": two_sum,
    "subf": lambda a, b: two_sum(a, -b),
    "mulf": two_product,
    "divf": _exact_quotient,
    "sqrt": _exact_root,
}


@builds("addf", "subf", "mulf", "divf")
def _arithmetic(op: Op, compiler: Compiler) -> Step:
    function = arithmetic(op.opcode, scalar_of(op.result.type), text(op, "rounding_mode"), flag(op, "flush_to_zero"))
    return binary(op, compiler, function)


@builds("sqrt")
def _sqrt(op: Op, compiler: Compiler) -> Step:
    mode, ftz = text(op, "rounding_mode"), flag(op, "flush_to_zero")
    return unary(op, compiler, arithmetic("sqrt", scalar_of(op.result.type), mode, ftz))


@builds("fma")
def _fma(op: Op, compiler: Compiler) -> Step:
    element, mode = scalar_of(op.result.type), text(op, "rounding_mode")
    a, b, c = (compiler.use(op, name) for name in ("lhs", "rhs", "acc"))
    target = compiler.slot(op.result)
    function = fused(element, mode)
    if flag(op, "flush_to_zero"):
        function = flushed(function)

    def step(frame: Any) -> None:
        values = frame.values
        values[target] = function(values[a], values[b], values[c])

    return step


def fused(element: ScalarType, mode: str) -> Function:
    """Return a * b + c with one rounding (float64: within a rounding of it)."""
    form = FORMATS.get(element.name)

    def narrow(a: Array, b: Array, c: Array) -> Array:
        product, addend = a.astype(np.float64) * b, c.astype(np.float64)  # the product is exact
        if element.name == "f32" and mode in NEAREST:
            total = product + addend
            if not twice_rounded(total).any():
                return np.asarray(total.astype(np.float32))
        total, error = two_sum(product, addend)
        if mode == "negative_inf":
            total = zero_sum(total, product, addend)
        total = to_odd(total, error)
        if element.name == "f32" and mode in NEAREST:
            return np.asarray(total.astype(np.float32))
        assert form is not None
        return round_to(total, form, mode)

    def wide(a: Array, b: Array, c: Array) -> Array:
        product, low = two_product(a, b)
        total, error = two_sum(product, c)
        error = error + low
        value, error = two_sum(total, np.where(np.isfinite(error), error, 0.0))
        if mode not in NEAREST:
            value = directed_f64(zero_sum(value, product, c) if mode == "negative_inf" else value, error, mode)
        return corrected(value, "fma", mode, (a, b, c))

    return wide if form is None else narrow


def widely(function: Function, element: ScalarType) -> Function:
    """Return the function computed in float64 and rounded to the element type."""
    rounding = rounder(element)
    if rounding is None:
        return function
    return lambda *args: rounding(function(*(arg.astype(np.float64) for arg in args)))


@builds(*_WIDE)
def _transcendental(op: Op, compiler: Compiler) -> Step:
    function = widely(_WIDE[op.opcode], scalar_of(op.result.type))
    if op.attributes.get("flush_to_zero"):
        function = flushed(function)
    return unary(op, compiler, function)


@builds("pow")
def _pow(op: Op, compiler: Compiler) -> Step:
    return binary(op, compiler, widely(np.power, scalar_of(op.result.type)), "source", "exponent")


@builds("fpowi")
def _fpowi(op: Op, compiler: Compiler) -> Step:
    return binary(op, compiler, widely(np.power, scalar_of(op.result.type)), "source", "exponent")


@builds("atan2")
def _atan2(op: Op, compiler: Compiler) -> Step:
    return binary(op, compiler, widely(np.arctan2, scalar_of(op.result.type)), "x", "y")


@builds("remf")
def _remf(op: Op, compiler: Compiler) -> Step:
    return binary(op, compiler, np.fmod)  # exact: needs no rounding


@builds("absf", "negf", "ceil", "floor")
def _exact(op: Op, compiler: Compiler) -> Step:
    functions: dict[str, Function] = {"absf": np.abs, "negf": np.negative, "ceil": np.ceil, "floor": np.floor}
    return unary(op, compiler, functions[op.opcode])


def extremum(opcode: str, propagate_nan: bool) -> Function:
    """Return maxf or minf: of a number and a NaN the number, or NaN with `propagate_nan`; +0 is greater than -0."""
    sign = 1.0 if opcode == "maxf" else -1.0
    plain: Function = np.minimum if propagate_nan else np.fmin
    if opcode == "maxf":
        plain = np.maximum if propagate_nan else np.fmax

    def function(a: Array, b: Array) -> Array:
        result = plain(a, b)
        if (result == 0).any():  # +0 is greater than -0, which numpy takes for equal
            zeros = (a == 0) & (b == 0)
            result = np.where(zeros, (a * sign + b * sign) * sign, result)
        return np.asarray(result)

    return function


@builds("maxf", "minf")
def _extremum(op: Op, compiler: Compiler) -> Step:
    function = extremum(op.opcode, flag(op, "propagate_nan"))
    return binary(op, compiler, flushed(function) if flag(op, "flush_to_zero") else function)


_ORDERED: dict[str, Function] = {
    "equal": np.equal,
    "not_equal": lambda a, b: (a < b) | (a > b),
    "less_than": np.less,
    "less_than_or_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_than_or_equal": np.greater_equal,
}
_UNORDERED: dict[str, Function] = {
    "equal": lambda a, b: ~((a < b) | (a > b)),
    "not_equal": np.not_equal,
    "less_than": lambda a, b: ~(a >= b),
    "less_than_or_equal": lambda a, b: ~(a > b),
    "greater_than": lambda a, b: ~(a <= b),
    "greater_than_or_equal": lambda a, b: ~(a < b),
}


@builds("cmpf")
def _cmpf(op: Op, compiler: Compiler) -> Step:
    table = _ORDERED if text(op, "comparison_ordering") == "ordered" else _UNORDERED
    return binary(op, compiler, table[text(op, "comparison_predicate")])
