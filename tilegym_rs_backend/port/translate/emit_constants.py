# SPDX-License-Identifier: MIT
"""Constants: literals, const generics, and the detours that some values need in cutile-rs 0.5.0."""

from __future__ import annotations

import math
from typing import Any

from tilegym_rs_backend.port.translate.element_types import HALVES
from tilegym_rs_backend.port.translate.element_types import bits
from tilegym_rs_backend.port.translate.element_types import is_float
from tilegym_rs_backend.port.translate.element_types import is_unsigned
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.emitter import NeedsConcreteType
from tilegym_rs_backend.port.translate.generics import float_bits
from tilegym_rs_backend.port.translate.provenance import expression_of
from tilegym_rs_backend.port.translate.provenance import is_derived
from tilegym_rs_backend.port.translate.registry import emits


@emits("TypedConst", python="literals, Constant parameters, full, zeros", rust="literal, constant, broadcast_scalar")
def constant(emitter: Emitter, operation: Any) -> None:
    """A constant of any shape; a 0-d one with a plain literal needs no binding."""
    variable = operation.result_var
    ty = variable.get_type()
    if type(ty).__name__ != "TileTy":
        return
    element = emitter.element(ty.dtype)
    literal = scalar_literal(emitter, operation.value, element)
    if ty.shape == () and literal is not None:
        emitter.alias(variable, literal, Form.SCALAR)
        return
    emitter.let(variable, tile_constant(emitter, operation.value, ty, element), default="c")


def scalar_literal(emitter: Emitter, value: Any, element: str) -> str | None:
    """The Rust scalar of a value, None where only a tile can hold it.

    The DSL reads unsigned literals as signed ones (above the maximum they silently become 0) and takes neither
    negative literals nor infinities as scalars everywhere.
    """
    if element == "bool":
        return "true" if value else "false"
    if element in ("i32", "i64") and is_derived(value):
        name = emitter.generics.integer(expression_of(value))
        return name if element == "i32" else f"({name} as i64)"
    if element == "E" or (is_float(element) and element not in ("f32", "f64")):
        return None
    if is_float(element):
        if is_derived(value) or not math.isfinite(value) or math.copysign(1.0, value) < 0:
            return None
        return float_literal(value, element)
    number = int(value)
    return f"{number}{element}" if 0 <= number < 1 << (bits(element) - 1) else None


def float_literal(value: float, element: str) -> str:
    """A Rust float literal that reads back as the same number."""
    text = repr(float(value))
    return f"{text if '.' in text or 'e' in text else text + '.0'}{element}"


def tile_constant(emitter: Emitter, value: Any, ty: Any, element: str) -> str:
    """The expression of a constant tile; intermediate bindings are added where one call does not do."""
    shape = emitter.shape(ty.shape)
    literal = scalar_literal(emitter, value, element)
    if literal is not None:
        if not is_derived(value):
            return f"constant({literal}, {shape})"
        return spread(emitter, literal, shape, bool(ty.shape))
    if element == "E" or is_float(element):
        return _float_constant(emitter, value, ty, element, shape)
    return _integer_constant(emitter, int(value), ty, element, shape)


def spread(emitter: Emitter, scalar: str, shape: str, ranked: bool) -> str:
    """A scalar constant as a tile; `constant` takes no const generic."""
    if ranked:
        emitter.parity_passes.add("constant_tiles")
    return f"broadcast_scalar({scalar}, {shape})" if ranked else f"scalar_to_tile({scalar})"


def _integer_constant(emitter: Emitter, value: int, ty: Any, element: str, shape: str) -> str:
    extents = emitter.extents(ty.shape)
    if is_unsigned(element):
        # The same bits as a signed number; a literal above the signed maximum would become 0.
        signed = f"i{bits(element)}"
        type = f"Tile<{signed}, {{ {extents} }}>"
        number = value - (1 << bits(element))
        return f"bitcast({emitter.temporary('c', type, _negative(emitter, number, type, signed, shape))})"
    return _negative(emitter, value, f"Tile<{element}, {{ {extents} }}>", element, shape)


def _negative(emitter: Emitter, value: int, type: str, element: str, shape: str) -> str:
    if element == "i32":
        return f"constant({value}i32, {shape})"
    # No negative literal of another type is lowered. The lowest number has no positive counterpart: 0 - max - 1.
    lowest = value == -(1 << (bits(element) - 1))
    zero = emitter.temporary("c", type, f"constant(0{element}, {shape})")
    positive = emitter.temporary("c", type, f"constant({-value - lowest}{element}, {shape})")
    if not lowest:
        return f"{zero} - {positive}"
    one = emitter.temporary("c", type, f"constant(1{element}, {shape})")
    below = emitter.temporary("c", type, f"{zero} - {positive}")
    return f"{below} - {one}"


def _float_constant(emitter: Emitter, value: Any, ty: Any, element: str, shape: str) -> str:
    number = float(value)
    plain_zero = number == 0 and math.copysign(1.0, number) > 0
    if plain_zero and not is_derived(value):
        return f"constant({element}::ZERO, {shape})"
    if element == "E":
        raise NeedsConcreteType
    # cutile-rs makes a NaN of bf16's infinities: those are written by their bits.
    if math.isinf(number) and element in ("f16", "f32", "f64") and not is_derived(value):
        return f"constant({element}::{'NEG_' if number < 0 else ''}INFINITY, {shape})"
    if element == "f32" and (is_derived(value) or math.isnan(number)):
        return _f32_bits(emitter, value, ty, shape)
    if element in HALVES:
        return _half_bits(emitter, value, ty, element, shape)
    if element in ("f32", "f64"):
        return f"constant({_signed_literal(number, element)}, {shape})"
    # An 8-bit or tf32 number is exact in f32, and the conversion of a constant folds.
    wide = f"Tile<f32, {{ {emitter.extents(ty.shape)} }}>"
    text = f"constant({_signed_literal(number, 'f32')}, {shape})"
    return f"convert_tile({emitter.temporary('c', wide, text)})"


def _signed_literal(value: float, element: str) -> str:
    return f"{'-' if math.copysign(1.0, value) < 0 else ''}{float_literal(abs(value), element)}"


def _f32_bits(emitter: Emitter, value: Any, ty: Any, shape: str) -> str:
    type = f"Tile<i32, {{ {emitter.extents(ty.shape)} }}>"
    emitter.passes.add("constant_bits")
    if is_derived(value):
        name = emitter.generics.float_bits(expression_of(value))
        text = spread(emitter, name, shape, bool(ty.shape))
    else:
        text = f"constant({float_bits(float(value), 'f32')}i32, {shape})"
    return f"bitcast({emitter.temporary('bits', type, text)})"


def _half_bits(emitter: Emitter, value: Any, ty: Any, element: str, shape: str) -> str:
    """A half constant by its bits: converting an f32 constant gives other machine code than Python's.

    Its bits are in the text, also where they come from a constant of the kernel: through a const generic they reach the
    kernel by a truncation, which the compiler does not take for the constant that it is.
    """
    tile = f"Tile<{element}, {{ {emitter.extents(ty.shape)} }}>"
    pattern = float_bits(float(value), element)
    type = f"Tile<u16, {{ {emitter.extents(ty.shape)} }}>"
    positive = emitter.temporary("bits", type, f"constant({pattern & 0x7FFF}u16, {shape})")
    if pattern >= 0:
        return f"bitcast({positive})"
    return f"negf({emitter.temporary('c', tile, f'bitcast({positive})')})"
