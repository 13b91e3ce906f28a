# SPDX-License-Identifier: MIT
"""Element types as numpy sees them.

A value in flight is held in its *carrier*: float types of 32 bits and less as float32 (each of their values is one of
float32's), float64 as itself, integers as signed numpy integers (i1 as bool, i4 as int8), pointers as int64. Memory
holds the type's own bits; `decode` and `encode` go between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tilegym_rs_backend.tile_ir.constants import plain
from tilegym_rs_backend.tile_ir.execute.by_torch import from_half
from tilegym_rs_backend.tile_ir.execute.by_torch import to_half
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.nan_bits import MANTISSA
from tilegym_rs_backend.tile_ir.execute.nan_bits import decoding
from tilegym_rs_backend.tile_ir.execute.nan_bits import encoding
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import Type

Array = npt.NDArray[Any]

LARGE = 1 << 18
"""Elements from which on a constant tile is not spread out."""
_INTEGERS = {"i1": np.bool_, "i4": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
_SMALL_FLOATS: dict[str, Any] = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
    "f4E2M1FN": ml_dtypes.float4_e2m1fn,
}
_MEMORY: dict[str, Any] = {
    **_INTEGERS,
    **_SMALL_FLOATS,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "tf32": np.float32,
    "f64": np.float64,
    "f8E5M3FNU": np.uint8,
}
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def element_of(type: Type) -> ScalarType | PointerType:
    """Return the element type of a tile, or the scalar type itself."""
    if isinstance(type, TileType):
        return type.element
    if isinstance(type, ScalarType | PointerType):
        return type
    raise ExecutionError("unsupported", f"{type} has no elements")


def scalar_of(type: Type) -> ScalarType:
    """Return the element type of a tile that holds no pointers."""
    element = element_of(type)
    if isinstance(element, PointerType):
        raise ExecutionError("unsupported", f"{type} holds pointers where numbers are expected")
    return element


def shape_of(type: Type) -> tuple[int, ...]:
    """Return a tile's shape, () for a scalar."""
    return type.shape if isinstance(type, TileType) else ()


def carrier(element: ScalarType | PointerType) -> np.dtype[Any]:
    """Return the dtype that holds values of `element` in flight."""
    if isinstance(element, PointerType):
        return np.dtype(np.int64)
    if element.is_integer:
        return np.dtype(_INTEGERS[element.name])
    return np.dtype(np.float64 if element.name == "f64" else np.float32)


def memory_dtype(element: ScalarType | PointerType) -> np.dtype[Any]:
    """Return the dtype of `element` in memory; 4-bit types have none (two share a byte)."""
    if isinstance(element, PointerType):
        return np.dtype(np.int64)
    if element.bits == 4:
        raise ExecutionError("unsupported", f"{element} lies two to a byte in memory: load bytes and unpack them")
    dtype: np.dtype[Any] = np.dtype(_MEMORY[element.name])
    return dtype


def item_size(element: ScalarType | PointerType) -> int:
    """Return bytes of one element in memory."""
    return memory_dtype(element).itemsize


def unsigned(values: Array) -> Array:
    """Return integers seen as unsigned ones of their size, without a copy."""
    return values if values.dtype == np.bool_ else values.view(_UNSIGNED[values.dtype.itemsize])


def signed(values: Array) -> Array:
    """Return unsigned integers seen as signed ones, without a copy."""
    return values if values.dtype == np.bool_ else values.view(_SIGNED[values.dtype.itemsize])


def natural(values: Array) -> Array:
    """Return integers as the unsigned numbers that indices and extents are, int64; 64 bits of them as they are."""
    return unsigned(values).astype(np.int64)


def _table_e5m3() -> Array:
    bits = np.arange(256)
    exponent, mantissa = bits >> 3, bits & 7
    values = np.where(
        exponent == 0, np.ldexp(mantissa / 8.0, -14), np.ldexp(1.0 + mantissa / 8.0, np.maximum(exponent, 1) - 15)
    )
    values[255] = np.nan
    return values.astype(np.float32)


_E5M3 = _table_e5m3()


def decoder(element: ScalarType | PointerType) -> Callable[[Array], Array]:
    """Return the function from memory to carrier; its result is always a fresh array."""
    target = carrier(element)
    if isinstance(element, ScalarType) and element.name == "f8E5M3FNU":
        return lambda raw: _E5M3[raw]
    if isinstance(element, ScalarType) and element.name == "i1":
        return lambda raw: raw.view(np.uint8) != 0
    if isinstance(element, ScalarType) and element.name in MANTISSA:
        widen = from_half if element.name == "f16" else (lambda raw: raw.astype(target))
        return decoding(widen, MANTISSA[element.name])
    return lambda raw: raw.astype(target)


def encoder(element: ScalarType | PointerType) -> Callable[[Array], Array]:
    """Return the function from carrier to memory; the values are already rounded to `element`."""
    if isinstance(element, ScalarType) and element.name == "f8E5M3FNU":
        return _encode_e5m3
    target = memory_dtype(element)
    if isinstance(element, ScalarType) and element.name in MANTISSA:
        narrow = to_half if element.name == "f16" else (lambda values: values.astype(target))
        return encoding(narrow, MANTISSA[element.name])
    return lambda values: values.astype(target, copy=False)


def _encode_e5m3(values: Array) -> Array:
    codes = np.searchsorted(_E5M3[:255], np.nan_to_num(values, nan=0.0)).astype(np.uint8)
    return np.asarray(np.where(np.isnan(values), np.uint8(255), codes))


def bits_of(element: ScalarType | PointerType, values: Array) -> Array:
    """Return the bit patterns of carrier values as signed integers of the element's size (int8 for 4 bits)."""
    if isinstance(element, PointerType) or element.is_integer:
        return values.view(np.int8) if values.dtype == np.bool_ else values
    if element.name == "f4E2M1FN":
        return np.asarray(values.astype(_SMALL_FLOATS["f4E2M1FN"]).view(np.int8))
    raw = np.ascontiguousarray(encoder(element)(values))
    return np.asarray(raw.view(_SIGNED[raw.dtype.itemsize]))


def from_bits(element: ScalarType | PointerType, bits: Array) -> Array:
    """Return carrier values from bit patterns: the inverse of `bits_of`."""
    if isinstance(element, PointerType):
        return bits.view(np.int64)
    if element.name == "i1":
        return np.asarray((bits & 1) != 0)
    if element.name == "i4":
        return wrap_i4(bits)
    if element.is_integer:
        return bits.view(carrier(element))
    if element.name == "f4E2M1FN":
        nibbles = np.ascontiguousarray(bits) & 15
        return np.asarray(nibbles.view(_SMALL_FLOATS["f4E2M1FN"]).astype(np.float32))
    return decoder(element)(np.ascontiguousarray(bits).view(memory_dtype(element)))


def wrap_i4(values: Array) -> Array:
    """Return int8 values wrapped to 4 bits."""
    return np.asarray(((values.astype(np.int8) << 4) >> 4).astype(np.int8))


def constant(data: bytes, type: Type) -> Array:
    """Return a constant tile from its bytes (one element fills it), with a leading block axis of 1."""
    element, shape = element_of(type), shape_of(type)
    data = plain(data, type)
    if isinstance(element, ScalarType) and element.bits == 4:
        values = from_bits(element, np.frombuffer(data, np.int8))
    else:
        values = decoder(element)(np.frombuffer(data, memory_dtype(element)))
    if values.size == 1:
        # A full array is faster to use; a very large one would be memory that a few bytes of a file ask for.
        if math.prod(shape) > LARGE:
            return np.broadcast_to(values, (1, *shape))
        return np.full((1, *shape), values[0], values.dtype)
    return values.reshape((1, *shape))
