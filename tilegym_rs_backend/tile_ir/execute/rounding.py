# SPDX-License-Identifier: MIT
"""Rounding: every float format and mode, and the error-free steps that a correctly rounded result needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tilegym_rs_backend.tile_ir.execute.by_torch import from_half
from tilegym_rs_backend.tile_ir.execute.by_torch import to_half
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.types import ScalarType

Rounder = Callable[[Array], Array]
NEAREST = ("nearest_even", "approx", "full")
"""Modes executed as round to nearest, ties to even: the approximate ones compute the exact function."""


@dataclass(frozen=True)
class Format:
    """A float format: bits of precision, smallest normal exponent, largest number.

    ``lowest`` is set for formats to which conversions saturate (PTX's to 8 bits and less are ``satfinite``): the
    least number they have.
    """

    precision: int
    emin: int
    largest: float
    lowest: float | None = None


FORMATS = {
    "f16": Format(11, -14, 65504.0),
    "bf16": Format(8, -126, float(2.0**128 - 2.0**120)),
    "tf32": Format(11, -126, float(2.0**128 - 2.0**117)),
    "f32": Format(24, -126, float(2.0**128 - 2.0**104)),
    "f8E4M3FN": Format(4, -6, 448.0, -448.0),
    "f8E5M2": Format(3, -14, 57344.0, -57344.0),
    "f8E8M0FNU": Format(1, -127, 2.0**127, 2.0**-127),
    "f8E5M3FNU": Format(4, -14, 114688.0, 0.0),
    "f4E2M1FN": Format(2, 0, 6.0, -6.0),
}


def rounder(element: ScalarType, mode: str = "nearest_even") -> Rounder | None:
    """Return the function that rounds float32 or float64 values to `element`'s; the result is in its carrier.

    None for float64, whose values are exact already. float32 input of an f32 rounder is returned as it is.
    """
    name = element.name
    if name == "f64":
        return None
    if mode in NEAREST and name in _FAST:
        return _FAST[name]
    form = FORMATS[name]
    return lambda values: round_to(values, form, mode)


def round_to(values: Array, form: Format, mode: str) -> Array:
    """Round to any format in any mode; `values` float32 or float64, the result float32."""
    x = values.astype(np.float64)
    _, exponent = np.frexp(x)
    unit = np.maximum(exponent - 1, form.emin) - (form.precision - 1)
    rounded = np.ldexp(_integer(np.ldexp(x, -unit), mode), unit)
    over = np.isfinite(x) & (np.abs(rounded) > form.largest)
    limit = np.copysign(np.inf if form.lowest is None else form.largest, rounded)
    if mode == "zero":
        limit = np.copysign(form.largest, rounded)
    elif mode == "negative_inf":
        limit = np.where(rounded > 0, form.largest, limit)
    elif mode == "positive_inf":
        limit = np.where(rounded < 0, -form.largest, limit)
    rounded = np.where(over, limit, rounded)
    if form.lowest is not None:
        rounded = np.clip(rounded, form.lowest, form.largest)
    return np.asarray(rounded.astype(np.float32))


def _integer(values: Array, mode: str) -> Array:
    if mode in NEAREST:
        return np.asarray(np.rint(values))
    if mode == "negative_inf":
        return np.asarray(np.floor(values))
    if mode == "positive_inf":
        return np.asarray(np.ceil(values))
    if mode == "nearest_away":
        return np.asarray(np.copysign(np.floor(np.abs(values) + 0.5), values))
    return np.asarray(np.trunc(values))  # zero, nearest_int_to_zero


def _f32(values: Array) -> Array:
    return values.astype(np.float32, copy=False)


def _f16(values: Array) -> Array:
    return from_half(to_half(values))


def _bf16(values: Array) -> Array:
    if values.dtype == np.float64:  # through float32 it would be rounded twice
        return round_to(values, FORMATS["bf16"], "nearest_even")
    return values.astype(ml_dtypes.bfloat16).astype(np.float32)


def _tf32(values: Array) -> Array:
    if values.dtype == np.float64:
        return round_to(values, FORMATS["tf32"], "nearest_even")
    bits = values.view(np.uint32)
    rounded = ((bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)).view(
        np.float32
    )
    return np.where(np.isnan(values), values, rounded)


_FAST: dict[str, Rounder] = {"f32": _f32, "f16": _f16, "bf16": _bf16, "tf32": _tf32}
_SMALLEST_NORMAL = np.uint32(0x7FFFFF)


def flush(values: Array) -> Array:
    """Return float32 values with denormals replaced by zeros of their sign."""
    magnitude = values.view(np.uint32) & np.uint32(0x7FFFFFFF)
    denormal = (magnitude - np.uint32(1)) < _SMALLEST_NORMAL  # zero wraps around to the largest
    if not denormal.any():
        return values
    return np.where(denormal, np.copysign(np.float32(0), values), values)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return float64 a + b and its rounding error, exactly."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def zero_sum(total: Array, a: Array, b: Array) -> Array:
    """Return a + b as rounding down has it: a sum of 0 is -0, but for +0 + +0."""
    positive = (a == 0) & (b == 0) & ~np.signbit(a) & ~np.signbit(b)
    return np.where((total == 0) & ~positive, -0.0, total)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Return float64 a * b and its rounding error, exactly while nothing overflows."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, error


def _split(a: Array) -> tuple[Array, Array]:
    scaled = a * 134217729.0  # 2^27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def to_odd(value: Array, error: Array) -> Array:
    """Round value + error to odd: what is rounded once more, to fewer bits, is then rounded correctly."""
    bits = value.view(np.int64)
    inexact = (error != 0) & np.isfinite(error) & np.isfinite(value) & ((bits & 1) == 0)
    if not inexact.any():
        return value
    step = np.where((error > 0) == (value > 0), 1, -1)
    return np.where(inexact, bits + step, bits).view(np.float64)


def twice_rounded(total: Array) -> Array:
    """Return where a float64, itself rounded, may round wrongly to float32: half way between two, or denormal."""
    half_way = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    return np.asarray(half_way | ((np.abs(total) < 2.0**-126) & (total != 0)))


def directed_f64(value: Array, error: Array, mode: str) -> Array:
    """Round value + error (value is the nearest float64) to float64 in a directed mode."""
    if mode == "negative_inf":
        wrong = error < 0
        target = -np.inf
        return np.where(wrong, np.nextafter(value, target), value)
    if mode == "positive_inf":
        return np.where(error > 0, np.nextafter(value, np.inf), value)
    if mode == "zero":
        wrong = np.where(value > 0, error < 0, error > 0)
        return np.where(wrong & (error != 0), np.nextafter(value, 0.0), value)
    return value
