# SPDX-License-Identifier: MIT
"""float64 results in a given rounding mode where float64 arithmetic cannot tell its own error: near its two ends."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array

_FAR, _NEAR = 2.0**900, 2.0**-900

FORMULAS: dict[str, Callable[..., Fraction]] = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": lambda a, b: a / b,
    "fma": lambda a, b, c: a * b + c,
}


def corrected(value: Array, opcode: str, mode: str, args: tuple[Array, ...]) -> Array:
    """Return `value`, computed by float64 arithmetic, with those elements computed anew that may be rounded wrongly."""
    args = tuple(np.broadcast_arrays(*args))
    finite = np.logical_and.reduce([np.isfinite(arg) for arg in args])
    if opcode == "divf":
        finite = finite & (args[1] != 0)
    size = [np.abs(each) for each in (*args, value)]
    extreme = np.logical_or.reduce([(each > _FAR) | ((each < _NEAR) & (each != 0)) for each in size])
    if opcode in ("mulf", "fma"):
        product = np.abs(args[0] * args[1])
        extreme = extreme | (product > _FAR) | ((product < _NEAR) & (args[0] != 0) & (args[1] != 0))
    doubtful = finite & extreme
    if not doubtful.any():
        return value
    value = np.array(value)
    for place in zip(*np.nonzero(doubtful), strict=True):
        exact = FORMULAS[opcode](*(Fraction(float(arg[place])) for arg in args))
        if exact:
            value[place] = rounded(exact, mode)
    return value


def rounded(exact: Fraction, mode: str) -> float:
    """Return the float64 that a number other than 0 is rounded to."""
    sign = 1.0 if exact > 0 else -1.0
    try:
        near = exact.numerator / exact.denominator
    except OverflowError:
        near = sign * math.inf
    down = mode == "negative_inf" or (mode == "zero" and exact > 0)
    up = mode == "positive_inf" or (mode == "zero" and exact < 0)
    if math.isinf(near):
        return sign * sys.float_info.max if (down if exact > 0 else up) else near
    if near == 0.0:
        near = math.copysign(0.0, sign)
    if down and Fraction(near) > exact:
        return math.nextafter(near, -math.inf)
    if up and Fraction(near) < exact:
        return math.nextafter(near, math.inf)
    return near
