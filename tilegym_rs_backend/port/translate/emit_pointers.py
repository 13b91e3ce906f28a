# SPDX-License-Identifier: MIT
"""Pointer tiles: gather, scatter and atomics."""

from __future__ import annotations

from typing import Any

from tilegym_rs_backend.port.translate.emit_views import latency_of
from tilegym_rs_backend.port.translate.emit_views import loaded
from tilegym_rs_backend.port.translate.emit_views import memory_order
from tilegym_rs_backend.port.translate.emit_views import update_mode
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import emits

_ATOMIC_SCOPE = {"NONE": "Device", "BLOCK": "TileBlock", "DEVICE": "Device", "SYS": "System"}


@emits("PointerOffset", python="(addresses of gather and scatter)", rust=".offset_tile")
def offset(emitter: Emitter, operation: Any) -> None:
    """Addresses, elements further on."""
    text = f"{emitter.tile(operation.pointer)}.offset_tile({emitter.tile(operation.offset)})"
    emitter.let(operation.result_var, text, default="ptrs")


def _mask(emitter: Emitter, operation: Any) -> str:
    return "None" if operation.mask is None else f"Some({emitter.tile(operation.mask)})"


@emits("LoadPointer", python="gather", rust="load_ptr_tko, select, with the pass fold_pads")
def gather(emitter: Emitter, operation: Any) -> None:
    """Load from a tile of addresses.

    A padding is written as a ``select`` after the load: ``load_ptr_tko`` takes a scalar one of a concrete type and
    rank 0 or 1 only. The pass ``fold_pads`` makes both one operation again.
    """
    tile, token = operation.result_vars
    pointer, mask = emitter.tile(operation.pointer), _mask(emitter, operation)
    pad = emitter.tile(operation.padding_value) if operation.padding_value is not None and mask != "None" else None
    text = (
        f"load_ptr_tko({pointer}, ordering::Weak, None::<scope::TileBlock>, {mask}, None, "
        f"Some({emitter.token(operation.token)}), Latency::<{latency_of(emitter, operation)}>)"
    )
    loaded(emitter, tile, token, text)
    if pad is not None:
        emitter.passes.add("fold_pads")
        emitter.let(tile, f"select({emitter.tile(operation.mask)}, {emitter.value(tile).text}, {pad})")


@emits("StorePointer", python="scatter", rust="store_ptr_tko")
def scatter(emitter: Emitter, operation: Any) -> None:
    """Store to a tile of addresses."""
    pointer, value, mask = emitter.tile(operation.pointer), emitter.tile(operation.value), _mask(emitter, operation)
    text = (
        f"store_ptr_tko({pointer}, {value}, ordering::Weak, None::<scope::TileBlock>, {mask}, "
        f"Some({emitter.token(operation.token)}), Latency::<{latency_of(emitter, operation)}>)"
    )
    emitter.let_token(operation.result_var, text, unsafe=True)


def _ranked(emitter: Emitter, variable: Any) -> tuple[str, str]:
    """(tile, type) of at least rank 1: the DSL's atomics panic on a 0-d tile of addresses."""
    text, type = emitter.tile(variable), emitter.type_of(variable)
    if variable.get_type().shape != ():
        return text, type
    type = type.replace("{ [] }", "{ [1] }")
    return emitter.temporary("at", type, f"{text}.reshape(shape![1])"), type


@emits("TileAtomicRMW", python="atomic_add, atomic_max, atomic_xchg ..", rust="atomic_rmw_tko")
def atomic_update(emitter: Emitter, operation: Any) -> None:
    """Read, combine and write, atomically."""
    (pointer, _), (update, type) = _ranked(emitter, operation.pointer), _ranked(emitter, operation.update)
    mask = "None" if operation.mask is None else f"Some({_ranked(emitter, operation.mask)[0]})"
    text = (
        f"atomic_rmw_tko({pointer}, {update}, atomic::{update_mode(operation)}, "
        f"ordering::{memory_order(operation)}, scope::{_ATOMIC_SCOPE[operation.memory_scope.name]}, {mask}, "
        f"Some({emitter.token(operation.token)}))"
    )
    _exchanged(emitter, operation, text, type)


@emits("TileAtomicCAS", python="atomic_cas", rust="atomic_cas_tko")
def compare_and_swap(emitter: Emitter, operation: Any) -> None:
    """Compare and swap, atomically."""
    pointer, _ = _ranked(emitter, operation.pointer)
    expected, type = _ranked(emitter, operation.expected)
    desired, _ = _ranked(emitter, operation.desired)
    if operation.mask is not None:
        raise refused(operation, "a masked compare-and-swap has no proven Rust form")
    text = (
        f"atomic_cas_tko({pointer}, {expected}, {desired}, ordering::{memory_order(operation)}, "
        f"scope::{_ATOMIC_SCOPE[operation.memory_scope.name]}, None, Some({emitter.token(operation.token)}))"
    )
    _exchanged(emitter, operation, text, type)


def _exchanged(emitter: Emitter, operation: Any, text: str, type: str) -> None:
    tile, token = operation.result_vars
    pair = emitter.names.fresh("at")
    emitter.code.let(pair, f"({type}, Token)", f"unsafe {{ {text} }}")
    emitter.let(tile, f"{pair}.0.reshape(shape![])" if tile.get_type().shape == () else f"{pair}.0")
    emitter.let_token(token, f"{pair}.1", pure=True)
