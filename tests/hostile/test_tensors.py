# SPDX-License-Identifier: MIT
"""Odd tensors, arguments and grids: refused by name, or executed with the exact result."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import TORCH
from ir_run import lanes
from ir_run import load
from ir_run import run
from ir_run import store
from ir_writer import write_module

from tilegym_rs_backend.tile_ir.execute import ExecutionError
from tilegym_rs_backend.tile_ir.execute import run_launch
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TensorViewType

F32 = tile("f32")


def launch(params, arguments, grid=(1, 1, 1), **options):
    return run_launch(write_module(Kernel(*params).module()), grid, arguments, **options)


def freed():
    x = torch.zeros(1000)
    x.untyped_storage().resize_(0)
    return x


def shrunk():
    x = torch.zeros(1000)
    x.untyped_storage().resize_(64)
    return x


VECTOR = [pointer("f32"), I32, I32]
ARGUMENTS = {
    "a meta tensor": (VECTOR, lambda: [torch.empty(4, device="meta")], "on meta"),
    "a meta tensor of 2^31 elements": (VECTOR, lambda: [torch.empty(1 << 31, device="meta")], "on meta"),
    "a sparse tensor": (VECTOR, lambda: [torch.ones(4).to_sparse()], "sparse_coo tensor"),
    "a freed tensor": (VECTOR, lambda: [freed()], "beyond its storage"),
    "a shrunk tensor": (VECTOR, lambda: [shrunk()], "beyond its storage"),
    "a lazy negative": (VECTOR, lambda: [torch._neg_view(torch.ones(4))], "lazy"),
    "a lazy conjugate": (VECTOR, lambda: [torch.ones(4, dtype=torch.complex64).conj()], "lazy"),
    "nothing": (VECTOR, lambda: [None], "NoneType"),
    "a string": (VECTOR, lambda: ["x"], "str"),
    "an array": (VECTOR, lambda: [np.zeros(4)], "ndarray"),
    "a float for an integer": ([I32], lambda: [1.5], "whole number"),
    "a whole float for an integer": ([I32], lambda: [2.0], "whole number"),
    "NaN for an integer": ([I32], lambda: [math.nan], "whole number"),
    "2^32 for an i32": ([I32], lambda: [1 << 32], "is no tile<i32>"),
    "-2^31 - 1 for an i32": ([I32], lambda: [-(1 << 31) - 1], "is no tile<i32>"),
    "2^64 for an i64": ([tile("i64")], lambda: [1 << 64], "is no tile<i64>"),
    "256 for an i8": ([tile("i8")], lambda: [256], "is no tile<i8>"),
    "2 for a truth value": ([tile("i1")], lambda: [2], "0 or 1"),
    "10^400 for a float": ([F32], lambda: [10**400], "too large"),
    "an integer for a tile": ([tile("i32", 4)], lambda: [1], "scalars only"),
    "too few": ([I32, I32], lambda: [1], "takes 2 launch parameters"),
    "too many": ([], lambda: [torch.zeros(4)], "takes 0 launch parameters"),
    "a scalar tensor for a vector": (VECTOR, lambda: [torch.zeros(())], "takes 3 launch parameters"),
}


@pytest.mark.parametrize(("params", "arguments", "message"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments_that_do_not_fit(params, arguments, message):
    with pytest.raises(ExecutionError, match=message) as caught:
        launch(params, arguments())
    assert caught.value.kind == "arguments"


def scalar(element, value):
    """What a kernel finds in a parameter."""
    b = Kernel(tile(element), pointer(element))
    b("store_ptr_tko", b.params[1], b.params[0], to=TOKEN)
    out = torch.zeros(1, dtype=TORCH[element])
    run(b, value, out)
    return out.item()


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        *(("i32", (1 << 32) - 1, -1), ("i64", (1 << 64) - 1, -1), ("i8", 255, -1), ("i8", -128, -128)),
        *(("i1", True, True), ("i1", 0, False), ("i32", True, 1), ("f32", 3, 3.0)),
        *(("f32", 1e300, math.inf), ("f32", 1e-46, 0.0), ("f64", 5e-324, 5e-324), ("f16", 1e5, math.inf)),
    ],
)
def test_scalars(element, value, expected):
    assert scalar(element, value) == expected


def test_a_half_parameter_is_rounded_before_it_is_used():
    b = Kernel(tile("f16"), pointer("f32"))
    b("store_ptr_tko", b.params[1], b("ftof", b.params[0], to=F32), to=TOKEN)
    out = torch.zeros(1)
    run(b, 0.1, out)
    assert out.item() == float(np.float16(0.1))


GRIDS = {
    "negative": ((-1, 1, 1), "arguments"),
    "negative twice": ((-1, -1, 1), "arguments"),
    "four axes": ((1, 1, 1, 1), "arguments"),
    "a fraction": ((1.5, 1, 1), "arguments"),
    "a string": (("1", 1, 1), "arguments"),
    "2^31 wide": ((1 << 31, 1, 1), "arguments"),
    "65536 high": ((1, 65536, 1), "arguments"),
    "65536 deep": ((1, 1, 65536), "arguments"),
    "2^63 blocks": (((1 << 31) - 1, 65535, 65535), "unsupported"),
    "2^32 blocks": ((1, 65535, 65535), "unsupported"),
}


@pytest.mark.parametrize(("grid", "kind"), GRIDS.values(), ids=GRIDS)
def test_grids_that_are_none(grid, kind):
    with pytest.raises(ExecutionError, match="grid") as caught:
        launch([], [], grid)
    assert caught.value.kind == kind


@pytest.mark.parametrize("grid", [(0, 1, 1), (5, 0, 3), (0,), (65535, 65535, 0)])
def test_empty_grids_run_nothing(grid):
    b = Kernel()
    b("assert", b.constant(0, tile("i1")), message="ran")
    assert run(b, grid=grid).blocks == 0


def test_a_huge_grid_takes_no_memory():
    """Two thousand million blocks, of which the first stops the run."""
    b = Kernel(pointer("f32"))
    b("load_ptr_tko", b.params[0], to=[F32, TOKEN])
    b("assert", b.constant(0, tile("i1")), message="enough")
    with pytest.raises(ExecutionError, match="enough"):
        run(b, torch.zeros(1), grid=((1 << 31) - 1, 1, 1))


def first_tile(x, lane_count, **options):
    """The first tile of a vector, through a view with its own extent and stride; beyond it, -inf."""
    kind = TensorViewType((None,), (None,), ScalarType("f32"))
    b = Kernel(pointer("f32"), I32, I32, pointer("f32"), I32, I32)
    whole = b("make_tensor_view", b.params[0], dynamic_shape=[b.params[1]], dynamic_strides=[b.params[2]], to=kind)
    part = b("make_partition_view", whole, to=PartitionViewType((lane_count,), kind, (0,), "neg_inf"))
    value, _ = b("load_view_tko", part, index=[b.constant(0)], to=[tile("f32", lane_count), TOKEN])
    store(b, b.params[3], value, "f32", lane_count)
    out = torch.full((lane_count,), 9.0)
    run_launch(write_module(b.module()), (1, 1, 1), [x, out], **options)
    return out.tolist()


BASE = torch.arange(16.0)
NOT = -math.inf
VECTORS = {
    "stride 0": (BASE[3:4].expand(4), [3.0] * 4),
    "stride 0, 2^31 long": (BASE[3:4].expand(1 << 31), [3.0] * 4),
    "stride 0, 2^31 - 1 long": (BASE[3:4].expand((1 << 31) - 1), [3.0] * 4),
    "stride 3": (BASE[1:12:3], [1.0, 4.0, 7.0, 10.0]),
    "at an offset": (BASE[12:], [12.0, 13.0, 14.0, 15.0]),
    "nothing": (BASE[:0], [NOT] * 4),
    "one element": (BASE[5:6], [5.0, NOT, NOT, NOT]),
    "one element of stride 2^30": (BASE.as_strided((1,), (1 << 30,), 2), [2.0, NOT, NOT, NOT]),
    "overlapping": (BASE.as_strided((2, 3), (1, 1))[1], [1.0, 2.0, 3.0, NOT]),
}


@pytest.mark.parametrize(("x", "expected"), VECTORS.values(), ids=VECTORS)
def test_vectors(x, expected):
    assert first_tile(x, 4) == expected


def every_axis(rank):
    """A kernel that copies a tensor of so many axes, two elements of each."""
    kind = TensorViewType((None,) * rank, (None,) * rank, ScalarType("f32"))
    part = PartitionViewType((2,) * rank, kind, tuple(range(rank)), "zero")
    b = Kernel(*[pointer("f32"), *[I32] * (2 * rank)] * 2)
    views = []
    for start in (0, 1 + 2 * rank):
        sizes, strides = b.params[start + 1 : start + 1 + rank], b.params[start + 1 + rank : start + 1 + 2 * rank]
        whole = b("make_tensor_view", b.params[start], dynamic_shape=sizes, dynamic_strides=strides, to=kind)
        views.append(b("make_partition_view", whole, to=part))
    index = [b.constant(0)] * rank
    value, _ = b("load_view_tko", views[0], index=index, to=[tile("f32", *[2] * rank), TOKEN])
    b("store_view_tko", value, views[1], index=index, to=TOKEN)
    return write_module(b.module())


@pytest.mark.parametrize("rank", [1, 5, 8])
def test_tensors_of_many_axes(rank):
    x = torch.randn([2] * rank).permute(*reversed(range(rank)))
    out = torch.zeros([2] * rank)
    run_launch(every_axis(rank), (1, 1, 1), [x, out])
    assert torch.equal(out, x)


def test_a_tensor_without_axes():
    b = Kernel(pointer("f32"), pointer("f32"))
    b("store_ptr_tko", b.params[1], b("load_ptr_tko", b.params[0], to=[F32, TOKEN])[0], to=TOKEN)
    out = torch.zeros(())
    run_launch(write_module(b.module()), (1, 1, 1), [torch.tensor(2.5), out])
    assert out.item() == 2.5


def test_views_of_one_memory_are_seen_as_one():
    """A store through one argument, an unordered load through another that overlaps it."""
    b = Kernel(pointer("f32"), pointer("f32"))
    b("store_ptr_tko", lanes(b, b.params[0], "f32", 4), b.constant(1.0, tile("f32", 4)), to=TOKEN)
    b("load_ptr_tko", lanes(b, b.params[1], "f32", 4), token=b("make_token", to=TOKEN), to=[tile("f32", 4), TOKEN])
    base = torch.zeros(8)
    run(b, base[:4], base[4:])
    with pytest.raises(ExecutionError) as caught:
        run(b, base[:4], base[2:6])
    assert (caught.value.kind, caught.value.op) == ("unordered", "load_ptr_tko")


def test_blocks_that_write_one_element_of_stride_0():
    b = Kernel(pointer("f32"), I32)
    block = b("get_tile_block_id", to=[I32] * 3)[0]
    where = b("offset", b.params[0], b("muli", block, b.params[1], to=I32, overflow="none"), to=pointer("f32"))
    b("store_ptr_tko", where, b.constant(1.0, F32), to=TOKEN)
    run(b, torch.zeros(4), 1, grid=(4, 1, 1))
    with pytest.raises(ExecutionError) as caught:
        run(b, torch.zeros(1).expand(4), 0, grid=(4, 1, 1))
    assert (caught.value.kind, caught.value.op) == ("race", "store_ptr_tko")


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_memory_that_is_not_aligned(offset):
    raw = torch.zeros(64, dtype=torch.uint8)
    b = Kernel(pointer("f32"))
    load(b, b.params[0], "f32", 4)
    with pytest.raises(ExecutionError) as caught:
        run(b, raw[offset : offset + 32])
    assert (caught.value.kind, caught.value.op) == ("misaligned", "load_ptr_tko")


@pytest.mark.parametrize(("element", "index"), [("i8", -56), ("i16", 200), ("i32", 200), ("i64", 200)])
def test_indices_are_unsigned(element, index):
    """Tile 200 of 256, by an i8 that would be -56 if it had a sign."""
    kind = TensorViewType((256,), (1,), ScalarType("i32"))
    b = Kernel(pointer("i32"), tile(element), pointer("i32"))
    part = b(
        "make_partition_view",
        b("make_tensor_view", b.params[0], dynamic_shape=[], dynamic_strides=[], to=kind),
        to=PartitionViewType((1,), kind, (0,), "zero"),
    )
    value, _ = b("load_view_tko", part, index=[b.params[1]], to=[tile("i32", 1), TOKEN])
    store(b, b.params[2], value, "i32", 1)
    out = torch.zeros(1, dtype=torch.int32)
    run(b, torch.arange(256, dtype=torch.int32), index, out)
    assert out.item() == 200


@pytest.mark.parametrize("index", [1 << 61, 1 << 62, (1 << 63) - 1, -1, -(1 << 63)])
def test_indices_so_far_that_their_address_wraps_around_are_outside(index):
    kind = TensorViewType((16,), (1,), ScalarType("f32"))
    b = Kernel(pointer("f32"), tile("i64"), pointer("f32"))
    part = b(
        "make_partition_view",
        b("make_tensor_view", b.params[0], dynamic_shape=[], dynamic_strides=[], to=kind),
        to=PartitionViewType((8,), kind, (0,), "pos_inf"),
    )
    value, _ = b("load_view_tko", part, index=[b.params[1]], to=[tile("f32", 8), TOKEN])
    store(b, b.params[2], value, "f32", 8)
    out = torch.zeros(8)
    run(b, torch.zeros(16), index, out)
    assert out.tolist() == [math.inf] * 8


def test_extents_that_promise_more_than_there_is():
    with pytest.raises(ExecutionError) as caught:
        run_launch(every_axis(1), (1, 1, 1), [torch.zeros(1).as_strided((1,), (1,)).data_ptr(), 2, 1, torch.zeros(2)])
    assert caught.value.kind == "out-of-bounds"


@pytest.mark.parametrize("lane_count", [4, 32])
def test_nan_of_any_payload_is_written_by_arithmetic(lane_count):
    raw = torch.tensor(([0x7F800001, -1, 0x7FC01234, 0x7FFFFFFF] * 8)[:lane_count], dtype=torch.int32)
    b = Kernel(pointer("f32"), pointer("f32"))
    x = load(b, b.params[0], "f32", lane_count)
    store(b, b.params[1], b("mulf", x, b.constant(0.0, x.type), to=x.type), "f32", lane_count)
    out = torch.zeros(lane_count)
    run(b, raw.view(torch.float32), out)
    assert out.isnan().all()
