# SPDX-License-Identifier: MIT
"""Lists of tensors: a device tensor of i64 words, (address, extents, strides) for each tensor of the list."""

from __future__ import annotations

from typing import Any

from tilegym_rs_backend.port.translate.emit_views import view_of
from tilegym_rs_backend.port.translate.emitter import ROOT_TOKEN
from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.emitter import Form
from tilegym_rs_backend.port.translate.refuse import refused
from tilegym_rs_backend.port.translate.registry import emits


def _words(operation: Any, list_type: Any) -> int:
    item = list_type.item_type
    if type(item).__name__ != "ArrayTy" or str(item.index_dtype) != "int32":
        raise refused(operation, f"a list of {item} has no Rust form", "list")
    return 1 + 2 * int(item.ndim)


def _row(words: int) -> int:
    """Tile extents are powers of two; the words behind an item belong to nobody."""
    return 1 << (words - 1).bit_length()


@emits("MakeListView", python="a list of arrays", rust="make_partition_view over i64 words")
def list_view(emitter: Emitter, operation: Any) -> None:
    """The list in tiles of one item."""
    words = _words(operation, operation.result_var.get_type())
    base = emitter.tile(operation.base_ptr)
    stem = base.removesuffix("_ptr")
    view = emitter.names.fresh(f"{stem}_view")
    count = emitter.scalar(operation.length)
    view_of(emitter, view, "i64", base, ((None, words), (count,)), ((words, 1), ()))
    name = emitter.names.fresh(f"{stem}_p")
    shape = f"[1, {_row(words)}]"
    text = f"make_partition_view(&{view}, shape!{shape}, padding::None, dim_map::Identity, {ROOT_TOKEN})"
    emitter.code.let(name, f"Partition<i64, {{ {shape} }}>", f"unsafe {{ {text} }}", pure=True)
    emitter.alias(operation.result_var, name, Form.VIEW)


@emits("GetArrayListItem", python="arrays[i]", rust="load_view_raw, extract, int_to_ptr")
def list_item(emitter: Emitter, operation: Any) -> None:
    """Address, extents and strides of one tensor of the list."""
    words = _words(operation, operation.x.get_type())
    shape = f"[1, {_row(words)}]"
    index, view = emitter.scalar(operation.index), emitter.value(operation.x).text
    if emitter.type_of(operation.index, Form.SCALAR) != "i32":
        raise refused(operation, "a list index of another type than i32 has no Rust form", "list")
    row = emitter.names.fresh("item")
    text = (
        f"load_view_raw(&{view}, [{index}, 0i32], None, ordering::Weak, scope::TileBlock, tma::Enabled, None, "
        f"[false, false], shape!{shape})"
    )
    emitter.code.let(row, f"(Tile<i64, {{ {shape} }}>, Token)", f"unsafe {{ {text} }}")
    values = emitter.temporary(f"{row}_words", f"Tile<i64, {{ {shape} }}>", f"{row}.0")
    zero = emitter.temporary("at", "Tile<i32, { [] }>", "scalar_to_tile(0i32)")
    emitter.passes.add("wrapping_truncations")
    for position, variable in enumerate(operation.result_vars):
        at = emitter.temporary("at", "Tile<i32, { [] }>", f"scalar_to_tile({position}i32)")
        one = emitter.temporary("word", "Tile<i64, { [1, 1] }>", f"extract({values}, [{zero}, {at}])")
        word = emitter.temporary("word", "Tile<i64, { [] }>", f"{one}.reshape(shape![])")
        if position == 0:
            emitter.let(variable, f"int_to_ptr({word})", default="address")
        else:
            emitter.let(variable, f"trunci({word}, overflow::NoUnsignedWrap)", default="size")
