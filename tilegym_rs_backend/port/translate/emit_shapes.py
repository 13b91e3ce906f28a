# SPDX-License-Identifier: MIT
"""Shapes, conversions, reductions and scans."""

from __future__ import annotations

from typing import Any

from tilegym_rs_backend.port.translate.element_types import bits
from tilegym_rs_backend.port.translate.element_types import is_float
from tilegym_rs_backend.port.translate.emit_constants import scalar_literal
from tilegym_rs_backend.port.translate.emit_constants import tile_constant
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import emits


@emits("TileArange", python="arange", rust="iota")
def arange(emitter: Emitter, operation: Any) -> None:
    """0, 1, 2, .."""
    emitter.let(operation.result_var, f"iota({emitter.shape(operation.result_var.get_type().shape)})", default="iota")


@emits("TileReshape", python="reshape, expand_dims, [None]", rust=".reshape")
def reshape(emitter: Emitter, operation: Any) -> None:
    """Another shape of the same elements."""
    shape = emitter.shape(operation.result_var.get_type().shape)
    emitter.let(operation.result_var, f"{emitter.tile(operation.x)}.reshape({shape})")


@emits("TileBroadcast", python="broadcasting", rust=".broadcast, broadcast_scalar")
def broadcast(emitter: Emitter, operation: Any) -> None:
    """Broadcasting; of a literal it is one call."""
    variable = operation.result_var
    shape = emitter.shape(variable.get_type().shape)
    source = constant_source(emitter, operation.x)
    if source is not None and source.result_var.get_type().shape == ():
        element = emitter.element(source.result_var.get_type().dtype)
        literal = scalar_literal(emitter, source.value, element)
        if literal is not None:
            emitter.let(variable, f"broadcast_scalar({literal}, {shape})", default="c")
            return
    emitter.let(variable, f"{emitter.tile(operation.x)}.broadcast({shape})")


def constant_source(emitter: Emitter, variable: Any) -> Any:
    """The constant that a variable is a reshaped or broadcast form of, None if it is none."""
    found: Any = emitter.definitions.get(variable.name)
    while type(found).__name__ in ("TileReshape", "TileBroadcast"):
        found = emitter.definitions.get(found.x.name)
    return found if type(found).__name__ == "TypedConst" else None


@emits("TilePermute", python="transpose, permute", rust="permute")
def permute(emitter: Emitter, operation: Any) -> None:
    """Axes in another order."""
    axes = ", ".join(map(str, operation.axes))
    emitter.let(operation.result_var, f"permute({emitter.tile(operation.x)}, const_array![{axes}])")


@emits("TileAsType", python="astype", rust="convert_tile, exti, trunci, bitcast")
def convert(emitter: Emitter, operation: Any) -> None:
    """Conversion of elements; between integers the widths choose the function."""
    source = emitter.element(operation.x.get_type().dtype)
    target = emitter.element(operation.result_var.get_type().dtype)
    chosen = operation.rounding_mode
    if chosen is not None and chosen.name not in ("RN", "RZ"):
        raise refused(operation, f"rounding mode {chosen.name} of a conversion is not known", "astype")
    x = emitter.tile(operation.x)
    floating = [element == "E" or is_float(element) for element in (source, target)]
    if target == "bool":
        if floating[0]:
            raise refused(operation, "a float has no conversion to bool in the DSL", "astype")
        zero = tile_constant(emitter, 0, operation.x.get_type(), source)
        text = f"ne_tile({x}, {emitter.temporary('zero', emitter.type_of(operation.x), zero)})"
    elif any(floating):
        text = f"convert_tile({x})"
    elif bits(target) > bits(source):
        text = f"exti({x})"
    elif bits(target) < bits(source):
        # The DSL cannot say "may wrap", which is what Python's conversion means; the pass takes the promise back.
        emitter.passes.add("wrapping_truncations")
        text = f"trunci({x}, overflow::NoUnsignedWrap)"
    else:
        text = f"bitcast({x})"
    emitter.let(operation.result_var, text)


@emits("TileBitCast", python="bitcast", rust="bitcast")
def bitcast(emitter: Emitter, operation: Any) -> None:
    """The same bits as another type."""
    emitter.let(operation.result_var, f"bitcast({emitter.tile(operation.x)})")


@emits("TilePack", python="pack_to_bytes", rust="pack")
def pack(emitter: Emitter, operation: Any) -> None:
    """Four-bit elements as bytes, two in each; the result's type says so, and a tile of the DSL has it."""
    source = emitter.element(operation.x.get_type().dtype)
    if bits(source) >= 8:
        raise refused(operation, f"only elements below a byte are packed, {source} is not", "pack_to_bytes")
    emitter.let(operation.result_var, f"pack({emitter.tile(operation.x)})")


@emits("TileCat", python="cat", rust="cat")
def concatenate(emitter: Emitter, operation: Any) -> None:
    """Two tiles, one after the other along an axis."""
    text = f"cat({emitter.tile(operation.x)}, {emitter.tile(operation.y)}, {operation.axis}i32)"
    emitter.let(operation.result_var, text)


@emits("TileExtract", python="extract", rust="extract")
def extract(emitter: Emitter, operation: Any) -> None:
    """A part of a tile, by its index in units of the result's shape."""
    index = ", ".join(emitter.tile(i) for i in operation.index)
    emitter.let(operation.result_var, f"extract({emitter.tile(operation.x)}, [{index}])")


def _combining(operation: Any) -> Any:
    """The one operation of a reduction's or scan's body."""
    body = list(operation.body)
    if len(operation.xs) != 1 or len(body) != 2:
        raise refused(operation, "only sum, product, max and min of one tile have a Rust form")
    return body[0]


def _name(step: Any) -> str:
    return str(getattr(step, "fn", "") or step.op)


@emits("TileReduce", python="sum, prod, max, min", rust="reduce_sum, reduce_prod, reduce_max, reduce_min")
def reduce(emitter: Emitter, operation: Any) -> None:
    """Reduction along an axis."""
    step = _combining(operation)
    function = {"add": "sum", "mul": "prod", "max": "max", "min": "min"}.get(getattr(step, "fn", ""))
    if function is None or type(step).__name__ != "RawBinaryArithmeticOperation":
        raise refused(operation, f"no reduction by {_name(step)} is known")
    if step.propagate_nan or step.flush_to_zero or (step.rounding_mode and step.rounding_mode.name != "RN"):
        raise refused(operation, "a reduction with NaN propagation, flushing or a rounding mode has no Rust form")
    emitter.let(operation.result_vars[0], f"reduce_{function}({emitter.tile(operation.xs[0])}, {operation.axis}i32)")


@emits("TileScan", python="cumsum", rust="scan_sum, with the pass scan_axes where the axis is not 0")
def scan(emitter: Emitter, operation: Any) -> None:
    """Running sum; the DSL ignores the axis, so the pass ``scan_axes`` puts it in."""
    step = _combining(operation)
    if getattr(step, "fn", "") != "add" or step.flush_to_zero:
        raise refused(operation, f"no scan by {_name(step)} is known")
    source = operation.xs[0]
    element = emitter.element(source.get_type().dtype)
    zero = scalar_literal(emitter, 0, element) or f"{element}::ZERO"
    direction = "Reverse" if operation.reverse else "Forward"
    emitter.scan_axes.append(int(operation.axis))
    text = f"scan_sum({emitter.tile(source)}, {operation.axis}i32, reverse::{direction}, {zero})"
    emitter.let(operation.result_vars[0], text)
