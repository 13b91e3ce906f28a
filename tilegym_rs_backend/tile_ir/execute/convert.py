# SPDX-License-Identifier: MIT
"""Conversions between element types, bit casts, packing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import bits_of
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import element_of
from tilegym_rs_backend.tile_ir.execute.dtypes import from_bits
from tilegym_rs_backend.tile_ir.execute.dtypes import scalar_of
from tilegym_rs_backend.tile_ir.execute.dtypes import shape_of
from tilegym_rs_backend.tile_ir.execute.dtypes import unsigned
from tilegym_rs_backend.tile_ir.execute.dtypes import wrap_i4
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.registry import unary
from tilegym_rs_backend.tile_ir.execute.rounding import rounder
from tilegym_rs_backend.tile_ir.execute.rounding import to_odd
from tilegym_rs_backend.tile_ir.execute.rounding import two_sum
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import Type

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op


def _source(op: Op, name: str) -> Type:
    value = op.operand(name)
    if value is None:
        raise ExecutionError("unsupported", f"the operand {name} is missing", op=op.opcode, loc=op.loc)
    return value.type


def _zero_extended(values: Array, element: ScalarType) -> Array:
    """Return integers as unsigned numbers."""
    return unsigned(values) & np.uint8(15) if element.name == "i4" else unsigned(values)


@builds("exti")
def _exti(op: Op, compiler: Compiler) -> Step:
    source, target = scalar_of(_source(op, "from")), carrier(scalar_of(op.result.type))
    if text(op, "signedness") == "signed":
        if source.name == "i1":
            return unary(op, compiler, lambda x: -x.astype(target), "from")
        return unary(op, compiler, lambda x: x.astype(target), "from")
    return unary(op, compiler, lambda x: _zero_extended(x, source).astype(target), "from")


@builds("trunci")
def _trunci(op: Op, compiler: Compiler) -> Step:
    element = scalar_of(op.result.type)
    if element.name == "i1":
        return unary(op, compiler, lambda x: (x & 1) != 0, "from")
    if element.name == "i4":
        return unary(op, compiler, wrap_i4, "from")
    dtype = carrier(element)
    return unary(op, compiler, lambda x: x.astype(dtype), "from")


@builds("ftof")
def _ftof(op: Op, compiler: Compiler) -> Step:
    source, target = scalar_of(_source(op, "from")), scalar_of(op.result.type)
    if target.name == "f64":
        return unary(op, compiler, lambda x: x.astype(np.float64, copy=False), "from")
    if _contains(target, source):
        return unary(op, compiler, lambda x: x, "from")
    rounding = rounder(target, text(op, "rounding_mode"))
    assert rounding is not None
    return unary(op, compiler, rounding, "from")


def _contains(wide: ScalarType, narrow: ScalarType) -> bool:
    """Whether each value of `narrow` is one of `wide`, so that nothing is to be rounded."""
    if wide.name == narrow.name:
        return True
    if narrow.name in ("f64", "f32", "f8E8M0FNU", "f8E5M3FNU"):
        return wide.name == "f32" and narrow.name != "f64"
    if wide.name in ("f32", "tf32"):
        return True
    return wide.name == "f16" and narrow.bits <= 8


@builds("itof")
def _itof(op: Op, compiler: Compiler) -> Step:
    source, target = scalar_of(_source(op, "from")), scalar_of(op.result.type)
    mode, is_signed = text(op, "rounding_mode"), text(op, "signedness") == "signed"
    rounding = rounder(target, mode)
    # A 64-bit integer has more bits than float64: numpy rounds it to float32 in one step.
    direct = source.bits == 64 and target.name == "f32" and mode == "nearest_even"

    def function(values: Array) -> Array:
        if values.dtype == np.bool_:
            values = -values.astype(np.int8) if is_signed else values.astype(np.int8)
        elif not is_signed:
            values = _zero_extended(values, source)
        if direct:
            return values.astype(np.float32)
        if source.bits == 64 and rounding is not None:  # float64 has fewer bits: what it drops must not be lost
            high, low = values >> values.dtype.type(32), values & values.dtype.type(0xFFFFFFFF)
            return rounding(to_odd(*two_sum(high.astype(np.float64) * 2.0**32, low.astype(np.float64))))
        wide = values.astype(np.float64)
        return wide if rounding is None else rounding(wide)

    return unary(op, compiler, function, "from")


@builds("ftoi")
def _ftoi(op: Op, compiler: Compiler) -> Step:
    target, is_signed = scalar_of(op.result.type), text(op, "signedness") == "signed"
    bits, dtype = target.bits, carrier(target)
    low = -(2.0 ** (bits - 1)) if is_signed else 0.0
    high = 2.0 ** (bits - 1) if is_signed else 2.0**bits
    largest = (1 << (bits - 1)) - 1 if is_signed else (1 << bits) - 1
    kind: Any = np.int64 if is_signed else np.uint64

    def function(values: Array) -> Array:
        # As PTX's cvt does: out of range gives the nearest end, NaN gives 0.
        whole = np.nan_to_num(np.trunc(values.astype(np.float64)), nan=0.0)
        over = whole >= high
        result = np.where(over, 0.0, np.maximum(whole, low)).astype(kind)
        result = np.where(over, kind(largest), result)
        if target.name == "i1":
            return np.asarray(result != 0)
        return np.asarray(result.astype(dtype)) if target.name != "i4" else wrap_i4(result)

    return unary(op, compiler, function, "from")


@builds("bitcast", "ptr_to_int", "int_to_ptr", "ptr_to_ptr")
def _bitcast(op: Op, compiler: Compiler) -> Step:
    source, target = element_of(_source(op, "source")), element_of(op.result.type)
    return unary(op, compiler, _caster(source, target))


def _caster(source: ScalarType | PointerType, target: ScalarType | PointerType) -> Callable[[Array], Array]:
    if source == target or (isinstance(source, PointerType) and isinstance(target, PointerType)):
        return lambda x: x
    return lambda x: from_bits(target, bits_of(source, x))


@builds("pack")
def _pack(op: Op, compiler: Compiler) -> Step:
    source, shape = scalar_of(_source(op, "source")), shape_of(op.result.type)

    def function(values: Array) -> Array:
        bits = np.ascontiguousarray(bits_of(source, values)).reshape(len(values), -1)
        raw: Array = bits.view(np.uint8).reshape(len(values), -1)
        if source.bits == 4:  # the first of two elements is the low half of their byte
            raw = (raw[:, 0::2] & 15) | (raw[:, 1::2] << 4)
        return raw.view(np.int8).reshape(len(values), *shape)

    return unary(op, compiler, function)


@builds("unpack")
def _unpack(op: Op, compiler: Compiler) -> Step:
    target, shape = scalar_of(op.result.type), shape_of(op.result.type)

    def function(values: Array) -> Array:
        raw: Array = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        if target.bits == 4:
            raw = np.stack((raw & 15, raw >> 4), axis=-1).reshape(len(values), -1)
        bits = raw.view(f"i{max(target.bits // 8, 1)}")
        return from_bits(target, bits).reshape(len(values), *shape)

    return unary(op, compiler, function)
