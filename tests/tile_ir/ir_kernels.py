# SPDX-License-Identifier: MIT
"""Small kernels of our own as Tile IR: a row softmax by views, a scaled copy by pointers, a matrix product."""

from __future__ import annotations

from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import partition
from ir_builder import pointer
from ir_builder import tensor
from ir_builder import tile

from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import FloatAttr
from tilegym_rs_backend.tile_ir.types import ScalarType

F32 = ScalarType("f32")
NEG_INF = FloatAttr(0xFF800000, F32)
ZERO = FloatAttr(0, F32)


def softmax(columns: int = 64, name: str = "softmax") -> Kernel:
    """One block per row: load, max, exp, sum, divide, store."""
    b = Kernel(pointer("f32"), I32, I32, I32, pointer("f32"), I32, I32, I32, name=name, occupancy=2)
    src, rows, cols, stride, dst, *_ = b.params
    kind = tensor("f32", 2)
    root = b("make_token", to=TOKEN)
    src = b("assume", src, to=src.type, predicate=DivBy(16))
    rows = b("assume", rows, to=I32, predicate=Bounded(0, None))
    views = []
    for base, padding in ((src, "neg_inf"), (dst, None)):
        whole = b("make_tensor_view", base, dynamic_shape=[rows, cols], dynamic_strides=[stride], to=kind)
        part = partition(kind, 1, columns, padding=padding)
        views.append(b("make_partition_view", whole, to=part))
    row, _, _ = b("get_tile_block_id", to=[I32] * 3)
    zero = b.constant(0)
    wide, one = tile("f32", 1, columns), tile("f32", 1)
    x, _ = b("load_view_tko", views[0], index=[row, zero], token=root, to=[wide, TOKEN])
    peak = b.reduce("maxf", x, 1, one, NEG_INF)
    peak = b("broadcast", b("reshape", peak, to=tile("f32", 1, 1)), to=wide)
    e = b("exp", b("subf", x, peak, to=wide), to=wide, rounding_mode="full")
    total = b.reduce("addf", e, 1, one, ZERO)
    total = b("broadcast", b("reshape", total, to=tile("f32", 1, 1)), to=wide)
    y = b("divf", e, total, to=wide)
    b("store_view_tko", y, views[1], index=[row, zero], token=root, to=TOKEN)
    return b


def scaled_copy(
    factor: float = 2.0, carry_store: bool = True, hoist: bool = False, swap: bool = False, name: str = "copy"
) -> Kernel:
    """A loop over chunks of pointers: ``y = x * factor``, the store's token carried or not."""
    b = Kernel(pointer("f32"), pointer("f32"), I32, name=name)
    src, dst, chunks = b.params
    wide, where = tile("f32", 32), tile("i32", 32)
    root = b("make_token", to=TOKEN)
    zero, one = b.constant(0), b.constant(1)
    outside = [b.constant(32, where), b("iota", to=where), b.constant(factor, wide)] if hoist else []
    with b.region(I32, TOKEN) as body:
        index, token = body.params
        size, lanes, scale = outside or [b.constant(32, where), b("iota", to=where), b.constant(factor, wide)]
        start = b("broadcast", b("reshape", index, to=tile("i32", 1)), to=where)
        scaled = b("muli", *((size, start) if swap else (start, size)), to=where)
        at = b("addi", scaled, lanes, to=where)
        pointers = []
        for base in (src, dst):
            spread = b("broadcast", b("reshape", base, to=pointer("f32", 1)), to=pointer("f32", 32))
            pointers.append(b("offset", spread, at, to=pointer("f32", 32)))
        x, _ = b("load_ptr_tko", pointers[0], token=root, to=[wide, TOKEN])
        y = b("mulf", *((scale, x) if swap else (x, scale)), to=wide)
        done = b("store_ptr_tko", pointers[1], y, token=token if carry_store else root, to=TOKEN)
        b("continue", done if carry_store else token)
    b("for", zero, chunks, one, init_values=[root], to=[TOKEN], regions=[body])
    return b


def product(m: int = 64, n: int = 64, k: int = 32, name: str = "product", **hints: int) -> Kernel:
    """One output tile per block, f16 in, f32 accumulator carried through the loop over k."""
    b = Kernel(*[pointer("f16"), I32, I32, I32] * 3, name=name, **hints)
    kind = tensor("f16", 2)
    parts = []
    for start, shape in ((0, (m, k)), (4, (k, n)), (8, (m, n))):
        base, rows, cols, stride = b.params[start : start + 4]
        whole = b("make_tensor_view", base, dynamic_shape=[rows, cols], dynamic_strides=[stride], to=kind)
        parts.append(b("make_partition_view", whole, to=partition(kind, *shape)))
    root = b("make_token", to=TOKEN)
    x, y, _ = b("get_tile_block_id", to=[I32] * 3)
    zero, one, steps = b.constant(0), b.constant(1), b("get_index_space_shape", parts[0], to=[I32, I32])[1]
    sums = tile("f32", m, n)
    with b.region(I32, sums) as body:
        index, total = body.params
        left, _ = b("load_view_tko", parts[0], index=[x, index], token=root, to=[tile("f16", m, k), TOKEN])
        right, _ = b("load_view_tko", parts[1], index=[index, y], token=root, to=[tile("f16", k, n), TOKEN])
        b("continue", b("mmaf", left, right, total, to=sums))
    total = b("for", zero, steps, one, init_values=[b.constant(0.0, sums)], to=[sums], regions=[body])
    out = b("ftof", total, to=tile("f16", m, n))
    b("store_view_tko", out, parts[2], index=[x, y], token=root, to=TOKEN)
    return b
