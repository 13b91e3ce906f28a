# SPDX-License-Identifier: MIT
"""Views, pointers and atomics of the executor: every padding, permutation, view kind, stride and mask."""

from __future__ import annotations

import math

import pytest
import torch
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import TORCH
from ir_run import lanes
from ir_run import run

from tilegym_rs_backend.tile_ir.types import GatherScatterViewType
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import StridedViewType
from tilegym_rs_backend.tile_ir.types import TensorViewType

PADDINGS = {"zero": 0.0, "neg_zero": -0.0, "nan": math.nan, "pos_inf": math.inf, "neg_inf": -math.inf}


def whole(b, base, tensor, element="f32"):
    """A tensor view with the strides and extents of a torch tensor, all dynamic."""
    rank = tensor.dim()
    kind = TensorViewType((None,) * rank, (None,) * rank, ScalarType(element))
    shape = [b.constant(extent) for extent in tensor.shape]
    strides = [b.constant(stride) for stride in tensor.stride()]
    return b("make_tensor_view", base, dynamic_shape=shape, dynamic_strides=strides, to=kind), kind


def copy_tiles(src, dst, tile_shape, make, source_kind, element="f32", grid=(1, 1, 1), index=None):
    """dst[block] = tile of src: the source through a view of any kind, the result through pointers."""
    n = math.prod(tile_shape)
    b = Kernel(pointer(element), pointer(element))
    view, kind = whole(b, b.params[0], src, element)
    part = b(make, view, to=source_kind(kind))
    ids = b("get_tile_block_id", to=[I32] * 3)
    where = index(b, ids) if index else list(ids[: len(tile_shape)])
    value, _ = b("load_view_tko", part, index=where, to=[tile(element, *tile_shape), TOKEN])
    flat = b("reshape", value, to=tile(element, n))
    x, y, _ = b("get_num_tile_blocks", to=[I32] * 3)
    number = b("addi", ids[0], b("muli", x, b("addi", ids[1], b("muli", y, ids[2], to=I32), to=I32), to=I32), to=I32)
    base = b("offset", b.params[1], b("muli", number, b.constant(n), to=I32), to=pointer(element))
    b("store_ptr_tko", lanes(b, base, element, n), flat, to=TOKEN)
    run(b, src, dst, grid=grid, unwritten=[dst])


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f8E5M2"])
def test_padding(padding, element):
    src = torch.randn(5, 7).to(TORCH[element])
    dst = torch.empty(2, 4, 8).to(TORCH[element])
    copy_tiles(
        src,
        dst,
        (4, 8),
        "make_partition_view",
        lambda v: PartitionViewType((4, 8), v, (0, 1), padding),
        element,
        grid=(2, 1, 1),
    )
    expected = torch.full((8, 8), PADDINGS[padding])
    expected[:5, :7] = src.float()
    got = dst.reshape(8, 8).float()
    if padding == "nan" or element != "f8E5M2":
        assert torch.equal(torch.isnan(got), torch.isnan(expected))
        assert torch.equal(torch.signbit(got.nan_to_num()), torch.signbit(expected.nan_to_num()))
        assert torch.equal(got.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize(("undetermined", "expected"), [("zero", 0.0), ("poison", math.nan)])
def test_undetermined_padding_is_chosen_by_the_caller(undetermined, expected):
    out = torch.zeros(8)
    b = Kernel(pointer("f32"), pointer("f32"))
    src = torch.ones(5)
    view, kind = whole(b, b.params[0], src)
    part = b("make_partition_view", view, to=PartitionViewType((8,), kind, (0,), None))
    value, _ = b("load_view_tko", part, index=[b.constant(0)], to=[tile("f32", 8), TOKEN])
    b("store_ptr_tko", lanes(b, b.params[1], "f32", 8), value, to=TOKEN)
    run(b, src, out, undetermined=undetermined)
    torch.testing.assert_close(out, torch.tensor([1.0] * 5 + [expected] * 3), equal_nan=True)


@pytest.mark.parametrize("dim_map", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (2, 1, 0)])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_permutations_and_strides(dim_map, layout):
    src = torch.randn(6, 5, 9)
    if layout == "transposed":
        src = torch.randn(9, 5, 6).transpose(0, 2)
    elif layout == "sliced":
        src = torch.randn(12, 5, 27)[::2, :, ::3]
    seen = src.permute(dim_map)
    shape = (4, 2, 8)
    grid = [-(-extent // size) for extent, size in zip(seen.shape, shape, strict=False)]
    dst = torch.empty(math.prod(grid), *shape)
    copy_tiles(
        src, dst, shape, "make_partition_view", lambda v: PartitionViewType(shape, v, dim_map, "zero"), grid=grid
    )
    expected = torch.zeros([count * size for count, size in zip(grid, shape, strict=False)])
    expected[tuple(slice(extent) for extent in seen.shape)] = seen
    number = 0
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                place = tuple(slice(i * size, (i + 1) * size) for i, size in zip((x, y, z), shape, strict=False))
                assert torch.equal(dst[number], expected[place])
                number += 1


def test_strided_view_overlaps():
    src = torch.arange(16.0).reshape(4, 4)
    dst = torch.empty(3, 2, 4)
    copy_tiles(
        src,
        dst,
        (2, 4),
        "make_strided_view",
        lambda v: StridedViewType((2, 4), (1, 4), v, (0, 1), "zero"),
        grid=(3, 1, 1),
    )
    for block in range(3):
        assert torch.equal(dst[block], src[block : block + 2])


@pytest.mark.parametrize("sparse", [0, 1])
def test_gather_view(sparse):
    src = torch.arange(64.0).reshape(8, 8)
    dst = torch.empty(2, 4, 4)

    def index(b, ids):
        rows = b("iota", to=tile("i32", 4))
        rows = b("muli", rows, b.constant(3, tile("i32", 4)), to=tile("i32", 4))
        start = b("muli", ids[0], b.constant(2), to=I32)
        return [rows, start] if sparse == 0 else [start, rows]

    copy_tiles(
        src,
        dst,
        (4, 4),
        "make_gather_scatter_view",
        lambda v: GatherScatterViewType((4, 4), v, sparse, "zero"),
        grid=(2, 1, 1),
        index=index,
    )
    for block in range(2):
        expected = torch.zeros(4, 4)
        source = src if sparse == 0 else src.t()
        expected[:3] = source[[0, 3, 6], 2 * block : 2 * block + 4]
        assert torch.equal(dst[block], expected if sparse == 0 else expected.t())


def test_scatter_view_and_view_atomics():
    dst = torch.zeros(8, 8)
    b = Kernel(pointer("f32"))
    view, kind = whole(b, b.params[0], dst)
    part = b("make_gather_scatter_view", view, to=GatherScatterViewType((4, 4), kind, 0, None))
    rows = b("muli", b("iota", to=tile("i32", 4)), b.constant(3, tile("i32", 4)), to=tile("i32", 4))
    b("store_view_tko", b.constant(2.0, tile("f32", 4, 4)), part, index=[rows, b.constant(6)], to=TOKEN)
    run(b, dst)
    expected = torch.zeros(8, 8)
    expected[[0, 3, 6], 6:] = 2
    assert torch.equal(dst, expected)

    total = torch.zeros(4, 4)
    b = Kernel(pointer("f32"))
    view, kind = whole(b, b.params[0], total)
    part = b("make_partition_view", view, to=PartitionViewType((4, 8), kind, (0, 1), None))
    zero = b.constant(0)
    attributes = {"mode": "addf", "memory_ordering_semantics": "relaxed", "memory_scope": "device"}
    one = b.constant(1.0, tile("f32", 4, 8))
    b("atomic_red_view_tko", part, index=[zero, zero], value=one, to=TOKEN, **attributes)
    run(b, total, grid=(10, 2, 1))
    assert torch.equal(total, torch.full((4, 4), 20.0))


@pytest.mark.parametrize("n", [8, 64])
def test_masked_pointers_with_64_bit_offsets(n):
    src, dst = torch.randn(100), torch.full((100,), -1.0)
    b = Kernel(pointer("f32"), pointer("f32"))
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    start = b("broadcast", b("reshape", b("muli", block, b.constant(n), to=I32), to=tile("i32", 1)), to=tile("i32", n))
    at = b("exti", b("addi", b("iota", to=tile("i32", n)), start, to=tile("i32", n)), to=tile("i64", n))
    inside = b("cmpi", at, b.constant(100, tile("i64", n)), to=tile("i1", n), comparison_predicate="less_than")
    pointers = [
        b(
            "offset",
            b("broadcast", b("reshape", p, to=pointer("f32", 1)), to=pointer("f32", n)),
            at,
            to=pointer("f32", n),
        )
        for p in b.params
    ]
    padding = b.constant(7.0, tile("f32", n))
    value, token = b("load_ptr_tko", pointers[0], mask=inside, padding_value=padding, to=[tile("f32", n), TOKEN])
    b("store_ptr_tko", pointers[1], value, mask=inside, token=token, to=TOKEN)
    run(b, src, dst, grid=(-(-100 // n), 1, 1), unwritten=[dst])
    assert torch.equal(dst, src)


@pytest.mark.parametrize(
    ("mode", "element", "expected"),
    [
        ("add", "i32", 6 * 5),
        ("addf", "f32", 30.0),
        ("addf", "f16", 30.0),
        ("max", "i32", 5),
        ("xchg", "i32", 5),
        ("umax", "i32", 5),
        ("or", "i32", 5),
        ("and", "i32", 0),
        ("xor", "i32", 0),
        ("min", "i32", 0),
    ],
)
def test_atomics_follow_each_other(mode, element, expected):
    cell, found = torch.zeros(1, dtype=TORCH[element]), torch.zeros(24, dtype=TORCH[element])
    b = Kernel(pointer(element), pointer(element))
    cells = b("broadcast", b("reshape", b.params[0], to=pointer(element, 1)), to=pointer(element, 4))
    five = b.constant(5, tile(element, 4))
    keep = b(
        "cmpi",
        b("iota", to=tile("i32", 4)),
        b.constant(1, tile("i32", 4)),
        to=tile("i1", 4),
        comparison_predicate="less_than",
    )
    attributes = {"memory_ordering_semantics": "acq_rel", "memory_scope": "device"}
    old, _ = b("atomic_rmw_tko", cells, five, mask=keep, mode=mode, to=[tile(element, 4), TOKEN], **attributes)
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    base = b("offset", b.params[1], b("muli", block, b.constant(4), to=I32), to=pointer(element))
    b("store_ptr_tko", lanes(b, base, element, 4), old, to=TOKEN)
    run(b, cell, found, grid=(6, 1, 1))
    assert cell.item() == expected
    if mode.startswith("add"):
        assert found.reshape(6, 4)[:, 0].tolist() == [0, 5, 10, 15, 20, 25]


def test_spin_lock():
    """Blocks wait for each other: they must run one after the other."""
    cell, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    b = Kernel(pointer("i32"), pointer("f32"))
    lock, value = b.params
    attributes = {"memory_ordering_semantics": "acq_rel", "memory_scope": "device"}
    zero, one = b.constant(0), b.constant(1)
    with b.region() as body:
        old, _ = b("atomic_cas_tko", lock, zero, one, to=[I32, TOKEN], **attributes)
        free = b("cmpi", old, zero, to=tile("i1"), comparison_predicate="equal")
        with b.region() as then:
            b("break")
        with b.region() as other:
            b("yield")
        b("if", free, regions=[then, other])
        b("continue")
    b("loop", regions=[body])
    x, token = b("load_ptr_tko", value, to=[tile("f32"), TOKEN])
    b("store_ptr_tko", value, b("addf", x, b.constant(1.0, tile("f32")), to=tile("f32")), token=token, to=TOKEN)
    b("atomic_rmw_tko", lock, zero, mode="xchg", to=[I32, TOKEN], **attributes)
    run(b, cell, total, grid=(7, 1, 1))
    assert total.item() == 7
