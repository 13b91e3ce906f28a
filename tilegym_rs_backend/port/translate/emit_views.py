# SPDX-License-Identifier: MIT
"""Tensor views, partition views, and tile loads and stores through them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilegym_rs_backend.port.translate.element_types import bits
from tilegym_rs_backend.port.translate.emitter import ROOT_TOKEN
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.provenance import expression_of
from tilegym_rs_backend.port.translate.provenance import is_derived
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import emits

_PADDING = {
    "UNDETERMINED": "None",
    "ZERO": "Zero",
    "NEG_ZERO": "NegZero",
    "NAN": "Nan",
    "POS_INF": "PosInf",
    "NEG_INF": "NegInf",
}
_ORDER = {"WEAK": "Weak", "RELAXED": "Relaxed", "ACQUIRE": "Acquire", "RELEASE": "Release", "ACQ_REL": "AcqRel"}
_SCOPE = {"NONE": "TileBlock", "BLOCK": "TileBlock", "DEVICE": "Device", "SYS": "System"}


@emits("MakeTensorView", python="an array, array.slice", rust="make_tensor_view")
def tensor_view(emitter: Emitter, operation: Any) -> None:
    """A tensor of given address, extents and strides; a `&Tensor` parameter is one already."""
    variable = operation.result_var
    whole = emitter.whole_tensor(operation)
    if whole is not None:
        emitter.alias(variable, whole, Form.TENSOR)
        return
    element = emitter.element(variable.get_type().dtype)
    base = emitter.tile(operation.base_ptr)
    stem = f"{base.removesuffix('_ptr')}_view"
    extents = [_static(emitter, v) for v in operation.shape]
    strides = [_static(emitter, v) for v in operation.strides]
    shown: list[int | None] = []
    counted: list[str] = []
    for shape, stride, stride_variable in zip(extents, strides, operation.strides, strict=True):
        single = shape == 1
        # cuTile Python's own rule: along an axis of one element the stride addresses nothing, but a unit one would
        # be taken for the contiguous axis. The front end leaves it dynamic and promises 16-byte divisibility.
        static = None if single and stride == 1 else stride
        shown.append(static)
        if static is None:
            text = emitter.scalar(stride_variable)
            by = 128 // bits_of(emitter, variable)
            if single and by > 1:
                text = emitter.temporary("stride", emitter.type_of(stride_variable, Form.SCALAR), text)
                emitter.code.let(text, "i32", f"unsafe {{ assume_div_by::<_, {by}>({text}) }}", pure=True)
            counted.append(text)
    counts = [emitter.scalar(v) for v, known in zip(operation.shape, extents, strict=True) if known is None]
    if any(emitter.type_of(v, Form.SCALAR) != "i32" for v in (*operation.shape, *operation.strides)):
        raise refused(operation, "a tensor with 64-bit extents or strides has no view in cutile-rs", "array")
    name = emitter.names.fresh(stem)
    made = view_of(emitter, name, element, base, (extents, counts), (shown, counted))
    emitter.alias(variable, f"&{made}", Form.TENSOR)


def view_of(
    emitter: Emitter,
    name: str,
    element: str,
    base: str,
    extents: tuple[Sequence[int | None], Sequence[str]],
    strides: tuple[Sequence[int | None], Sequence[str]],
) -> str:
    """Bind a tensor view; extents and strides are (static ones by axis, the dynamic ones in order)."""
    shape, steps = (
        f"{{ [{', '.join('-1' if known is None else str(known) for known in static)}] }}"
        for static, _ in (extents, strides)
    )
    sizes = f"Shape::<{shape}> {{ dims: &[{', '.join(extents[1])}] }}"
    paces = f"Array::<{steps}> {{ dims: &[{', '.join(strides[1])}] }}"
    size = emitter.temporary(f"{name}_n", f"Shape<{shape}>", sizes)
    pace = emitter.temporary(f"{name}_s", f"Array<{steps}>", paces)
    text = f"unsafe {{ make_tensor_view({base}, {size}, {pace}, {ROOT_TOKEN}) }}"
    emitter.code.let(name, f"Tensor<{element}, {shape}>", text, pure=True)
    return name


def bits_of(emitter: Emitter, tensor: Any) -> int:
    """Width of a tensor's elements; the type generic stands for a half float."""
    element = emitter.element(tensor.get_type().dtype)
    return 16 if element == "E" else max(8, bits(element))


def _static(emitter: Emitter, variable: Any) -> int | None:
    """An extent or stride that the front end puts into the view's type: a known positive number."""
    found: Any = emitter.definitions.get(variable.name)
    if type(found).__name__ != "TypedConst" or not isinstance(found.value, int) or found.value <= 0:
        return None
    return int(found.value)


@emits("MakePartitionView", python="load, store (the tiles of an array)", rust="make_partition_view")
def partition_view(emitter: Emitter, operation: Any) -> None:
    """A tensor in tiles."""
    ty = operation.result_var.get_type()
    order = tuple(ty.order)
    mapping = f"const_array![{', '.join(map(str, order))}]"
    if order == tuple(range(len(order))):
        mapping = "dim_map::Identity"
    tensor = emitter.value(operation.array).text
    name = emitter.names.fresh(f"{tensor.strip('&').removesuffix('_view')}_p")
    element, tile = emitter.element(ty.array_ty.dtype), ty.tile_shape
    padding = _PADDING[ty.padding_mode.name]
    text = f"make_partition_view({tensor}, {emitter.shape(tile)}, padding::{padding}, {mapping}, {ROOT_TOKEN})"
    view = f"Partition<{element}, {{ {emitter.extents(tile)} }}>"
    emitter.code.let(name, view, f"unsafe {{ {text} }}", pure=True)
    emitter.alias(operation.result_var, name, Form.VIEW)


@emits("MakeGatherScatterView", python="load_advanced_indexing ..", rust="make_gather_scatter_view")
def gather_scatter_view(emitter: Emitter, operation: Any) -> None:
    """A tensor of which one axis is indexed by a tile."""
    ty = operation.result_var.get_type()
    tensor = emitter.value(operation.array).text
    name = emitter.names.fresh(f"{tensor.strip('&').removesuffix('_view')}_g")
    element, tile = emitter.element(ty.array_ty.dtype), ty.tile_shape
    padding = _PADDING[ty.padding_mode.name]
    text = f"make_gather_scatter_view({tensor}, {emitter.shape(tile)}, padding::{padding})"
    view = f"GatherScatterView<{element}, {{ {emitter.extents(tile)} }}, {int(ty.sparse_dim)}>"
    emitter.code.let(name, view, f"unsafe {{ {text} }}", pure=True)
    emitter.alias(operation.result_var, name, Form.VIEW)


@emits("NumTiles", python="num_tiles, cdiv over an array's extent", rust="num_tiles")
def num_tiles(emitter: Emitter, operation: Any) -> None:
    """How many tiles a view has along its axes."""
    view = emitter.value(operation.view).text
    for axis, variable in enumerate(operation.result_vars):
        if emitter.uses.get(variable.name):
            emitter.let(variable, f"num_tiles(&{view}, {axis}i32)", Form.SCALAR, default="tiles")


def _index(emitter: Emitter, operation: Any, index: Sequence[Any]) -> str:
    sparse = [variable.get_type().shape != () for variable in index]
    for variable in index:
        if emitter.element(variable.get_type().dtype) != "i32":
            raise refused(operation, "a tile index of another type than i32 has no Rust form", "index")
    parts = [emitter.tile(v) if tile else emitter.scalar(v) for v, tile in zip(index, sparse, strict=True)]
    shown = ", ".join(f"{part}i32" if re.fullmatch(r"[0-9]+", part) else part for part in parts)
    return f"({shown})" if any(sparse) else f"[{shown}]"


def _hints(emitter: Emitter, operation: Any) -> str:
    """Order, scope, TMA, latency and in-bounds promise, as the raw operations take them."""
    order = f"ordering::{_ORDER[operation.memory_order.name]}, scope::{_SCOPE[operation.memory_scope.name]}"
    tma = f"tma::{'Disabled' if operation.allow_tma is False else 'Enabled'}"
    latency = "None" if operation.latency is None else f"Some({latency_of(emitter, operation)})"
    inside = ", ".join(str(bool(known)).lower() for known in operation.inbounds or (False,) * len(operation.index))
    return f"{order}, {tma}, {latency}, [{inside}]"


def latency_of(emitter: Emitter, operation: Any) -> str:
    """The latency hint: a number, or the const generic it comes from; 0 is none."""
    value = operation.latency
    return emitter.generics.integer(expression_of(value)) if is_derived(value) else str(int(value or 0))


@emits("TileLoad", python="load", rust="load_view_raw")
def tile_load(emitter: Emitter, operation: Any) -> None:
    """Load one tile of a view."""
    tile, token = operation.result_vars
    index = _index(emitter, operation, operation.index)
    view = emitter.value(operation.view).text
    shape = emitter.shape(tile.get_type().shape)
    token_text, hints = emitter.token(operation.token), _hints(emitter, operation)
    text = f"load_view_raw(&{view}, {index}, Some({token_text}), {hints}, {shape})"
    loaded(emitter, tile, token, text)


def loaded(emitter: Emitter, tile: Any, token: Any, text: str) -> None:
    """Bind the (tile, token) pair of a load and its halves."""
    pair = emitter.names.fresh("ld")
    emitter.code.let(pair, f"({emitter.type_of(tile)}, Token)", f"unsafe {{ {text} }}")
    emitter.let(tile, f"{pair}.0")
    if emitter.uses.get(token.name):
        emitter.let_token(token, f"{pair}.1", pure=True)
    else:
        emitter.alias(token, f"{pair}.1", Form.TOKEN)


@emits("TileStore", python="store", rust="store_view_raw")
def tile_store(emitter: Emitter, operation: Any) -> None:
    """Store one tile of a view."""
    index, tile = _index(emitter, operation, operation.index), emitter.tile(operation.tile)
    view, token = emitter.value(operation.view).text, emitter.token(operation.token)
    text = f"store_view_raw(&{view}, {tile}, {index}, Some({token}), {_hints(emitter, operation)})"
    emitter.let_token(operation.result_var, text, unsafe=True)


_UPDATES = {
    "ADD_INT": "Add",
    "ADD_FLOAT": "AddF",
    "MAX_SIGNED_INT": "Max",
    "MIN_SIGNED_INT": "Min",
    "MAX_UNSIGNED_INT": "Umax",
    "MIN_UNSIGNED_INT": "Umin",
    "BITWISE_AND": "And",
    "BITWISE_OR": "Or",
    "BITWISE_XOR": "Xor",
    "EXCHANGE": "Xchg",
}


def update_mode(operation: Any) -> str:
    """The DSL's name of an atomic update."""
    name = _UPDATES.get(operation.mode.name)
    if name is None:
        raise refused(operation, f"no atomic update {operation.mode.name} is known")
    return name


def memory_order(operation: Any) -> str:
    """The DSL's name of a memory order."""
    return _ORDER[operation.memory_order.name]


@emits("TileAtomicRedView", python="tiled_view.atomic_store_add ..", rust="atomic_red_view_raw")
def view_update(emitter: Emitter, operation: Any) -> None:
    """Combine a tile with memory, elementwise and atomically."""
    index, update = _index(emitter, operation, operation.index), emitter.tile(operation.update)
    scope = {"BLOCK": "TileBlock", "DEVICE": "Device"}[operation.memory_scope.name]
    text = (
        f"atomic_red_view_raw(&{emitter.value(operation.view).text}, {update}, {index}, "
        f"atomic::{update_mode(operation)}, ordering::{memory_order(operation)}, scope::{scope}, "
        f"Some({emitter.token(operation.token)}))"
    )
    emitter.let_token(operation.result_var, text, unsafe=True)
