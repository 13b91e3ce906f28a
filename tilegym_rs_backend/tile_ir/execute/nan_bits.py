# SPDX-License-Identifier: MIT
"""NaNs keep their bits on the way from memory to float32 and back, so that a copy is one; conversions change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MANTISSA = {"f16": 10, "bf16": 7, "f8E5M2": 2}
"""Formats with several NaNs -> bits of their mantissa."""
_F32_MANTISSA = 23
_EXPONENT = np.uint32(0x7F800000)


def decoding(decode: Callable[[Array], Array], mantissa: int) -> Callable[[Array], Array]:
    """Return `decode`, whose NaNs then have the bits of memory in their upper bits."""
    shift = np.uint32(_F32_MANTISSA - mantissa)

    def function(raw: Array) -> Array:
        values = decode(raw)
        nan = np.isnan(values)
        if nan.any():
            bits = raw.view(f"u{raw.dtype.itemsize}")[nan].astype(np.uint32)
            sign = bits >> np.uint32(8 * raw.dtype.itemsize - 1) << np.uint32(31)
            payload = (bits & np.uint32((1 << mantissa) - 1)) << shift
            values.view(np.uint32)[nan] = sign | _EXPONENT | payload
        return values

    return function


def encoding(encode: Callable[[Array], Array], mantissa: int) -> Callable[[Array], Array]:
    """Return `encode`, which then writes a NaN's upper bits, or the quiet NaN where those are an infinity's."""
    shift = np.uint32(_F32_MANTISSA - mantissa)

    def function(values: Array) -> Array:
        raw = encode(values)
        nan = np.isnan(values)
        if nan.any():
            bits = values[nan].astype(np.float32, copy=False).view(np.uint32)
            size = raw.dtype.itemsize
            ones = np.uint32(((1 << (8 * size - 1)) - 1) >> mantissa << mantissa)
            payload = bits >> shift & np.uint32((1 << mantissa) - 1)
            payload = np.where(payload == 0, np.uint32(1 << (mantissa - 1)), payload)
            sign = bits >> np.uint32(31) << np.uint32(8 * size - 1)
            raw = np.array(raw)
            raw.view(f"u{size}")[nan] = (sign | ones | payload).astype(f"u{size}")
        return raw

    return function
