# SPDX-License-Identifier: MIT
"""Each check of the executor fires, names the operation, the block and the source line, and stays silent otherwise."""

from __future__ import annotations

import pytest
import torch
from ir_builder import I32
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import lanes
from ir_run import load
from ir_run import run
from ir_run import store

from tilegym_rs_backend.tile_ir.execute import ExecutionError
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import SameElements
from tilegym_rs_backend.tile_ir.types import PartitionViewType
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TensorViewType


def fault(kind, kernel, *arguments, **options):
    with pytest.raises(ExecutionError) as caught:
        run(kernel, *arguments, **options)
    error = caught.value
    assert error.kind == kind, error
    assert f"[{kind}]" in str(error)
    if kind not in ("arguments", "unsupported"):
        assert error.op
        assert error.file == "kernel.rs"
        assert error.line > 0
    return error


def block_pointer(b, base, n, element="f32"):
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    return b("offset", base, b("muli", block, b.constant(n), to=I32), to=pointer(element))


@pytest.mark.parametrize("n", [4, 64])
def test_load_outside(n):
    b = Kernel(pointer("f32"), pointer("f32"))
    store(b, b.params[1], load(b, block_pointer(b, b.params[0], n), "f32", n), "f32", n)
    error = fault("out-of-bounds", b, torch.zeros(2 * n), torch.zeros(n), grid=(3, 1, 1), batch=1, checks=False)
    assert error.op == "load_ptr_tko"
    assert error.block == (2, 0, 0)


@pytest.mark.parametrize("n", [4, 64])
def test_store_outside_in_a_batch(n):
    b = Kernel(pointer("f32"))
    store(b, block_pointer(b, b.params[0], n), b.constant(1.0, tile("f32", n)), "f32", n)
    error = fault("out-of-bounds", b, torch.zeros(3 * n - 1), grid=(3, 1, 1))
    assert (error.op, error.block) == ("store_ptr_tko", (2, 0, 0))
    assert "argument 0" in str(error)


def view_kernel(extent, inbounds=False, everywhere=False):
    b = Kernel(pointer("f32"))
    kind = TensorViewType((None,), (1,), ScalarType("f32"))
    whole = b("make_tensor_view", b.params[0], dynamic_shape=[b.constant(extent)], dynamic_strides=[], to=kind)
    part = b("make_partition_view", whole, to=PartitionViewType((8,), kind, (0,), None))
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    block = b.constant(0) if everywhere else block
    b("store_view_tko", b.constant(1.0, tile("f32", 8)), part, index=[block], to=TOKEN, inbounds=(inbounds,))
    return b


def test_view_larger_than_its_tensor():
    error = fault("out-of-bounds", view_kernel(24), torch.zeros(20), grid=(3, 1, 1))
    assert error.block == (2, 0, 0)
    out = torch.zeros(20)
    run(view_kernel(20), out, grid=(3, 1, 1))
    assert out.sum() == 20


def test_false_promise_of_inbounds():
    assert fault("out-of-bounds", view_kernel(20, inbounds=True), torch.zeros(20), grid=(3, 1, 1)).block == (2, 0, 0)


def test_misaligned():
    b = Kernel(pointer("f32"), I32)
    where = b("ptr_to_int", b.params[0], to=tile("i64"))
    where = b("addi", where, b.constant(2, tile("i64")), to=tile("i64"))
    there = b("int_to_ptr", where, to=pointer("f32"))
    b("load_ptr_tko", there, to=[tile("f32"), TOKEN])
    fault("misaligned", b, torch.zeros(4), 0)


def test_reads_what_nobody_wrote():
    b = Kernel(pointer("f32"), pointer("f32"))
    store(b, b.params[1], load(b, b.params[0], "f32", 8), "f32", 8)
    x, y = torch.zeros(8), torch.empty(8)
    fault("uninitialized", b, x, y, unwritten=[x])
    b = Kernel(pointer("f32"), pointer("f32"))
    store(b, b.params[1], load(b, b.params[0], "f32", 8), "f32", 8)
    run(b, x, y, unwritten=[y])
    b = Kernel(pointer("f32"))
    pointers = lanes(b, b.params[0], "f32", 8)
    token = b("store_ptr_tko", pointers, b.constant(1.0, tile("f32", 8)), to=TOKEN)
    b("load_ptr_tko", pointers, token=token, to=[tile("f32", 8), TOKEN])
    run(b, y, unwritten=[y])


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("n", [4, 32])
def test_two_blocks_write_one_element(batch, n):
    def kernel():
        b = Kernel(pointer("f32"))
        store(b, block_pointer(b, b.params[0], n - 1), b.constant(1.0, tile("f32", n)), "f32", n)
        return b

    error = fault("race", kernel(), torch.zeros(200), grid=(3, 1, 1), batch=batch)
    assert error.op == "store_ptr_tko"
    run(kernel(), torch.zeros(200), grid=(3, 1, 1), checks=False)
    run(kernel(), torch.zeros(200), grid=(1, 1, 1))


@pytest.mark.parametrize("batch", [0, 1])
def test_two_blocks_write_one_tile(batch):
    fault("race", view_kernel(8, everywhere=True), torch.zeros(8), grid=(2, 1, 1), batch=batch)


@pytest.mark.parametrize("batch", [0, 1])
def test_reads_what_another_block_wrote(batch):
    b = Kernel(pointer("f32"))
    n = 4
    token = b(
        "store_ptr_tko", lanes(b, block_pointer(b, b.params[0], n), "f32", n), b.constant(1.0, tile("f32", n)), to=TOKEN
    )
    b("load_ptr_tko", lanes(b, b.params[0], "f32", n), token=token, to=[tile("f32", n), TOKEN])
    fault("race", b, torch.zeros(16), grid=(4, 1, 1), batch=batch)


def test_load_unordered_after_its_store():
    def kernel(ordered):
        b = Kernel(pointer("f32"))
        pointers = lanes(b, b.params[0], "f32", 8)
        root = b("make_token", to=TOKEN)
        stored = b("store_ptr_tko", pointers, b.constant(1.0, tile("f32", 8)), token=root, to=TOKEN)
        stored = b("join_tokens", root, stored, to=TOKEN)
        b("load_ptr_tko", pointers, token=stored if ordered else root, to=[tile("f32", 8), TOKEN])
        return b

    error = fault("unordered", kernel(False), torch.zeros(8))
    assert error.op == "load_ptr_tko"
    run(kernel(True), torch.zeros(8))
    run(kernel(False), torch.zeros(8), checks=False)


def test_token_lost_by_a_loop():
    """The store's token is not carried, so the next turn's load is not ordered after it."""

    def kernel(carry):
        b = Kernel(pointer("f32"))
        pointers = lanes(b, b.params[0], "f32", 8)
        root = b("make_token", to=TOKEN)
        zero, one, three = b.constant(0), b.constant(1), b.constant(3)
        with b.region(I32, TOKEN) as body:
            token = body.params[1] if carry else root
            x, _ = b("load_ptr_tko", pointers, token=token, to=[tile("f32", 8), TOKEN])
            x = b("addf", x, x, to=tile("f32", 8))
            b("continue", b("store_ptr_tko", pointers, x, token=token, to=TOKEN))
        b("for", zero, three, one, root, to=[TOKEN], regions=[body])
        return b

    fault("unordered", kernel(False), torch.ones(8))
    x = torch.ones(8)
    run(kernel(True), x)
    assert x.tolist() == [8.0] * 8


@pytest.mark.parametrize(
    ("predicate", "value"),
    [(DivBy(16), 24), (Bounded(0, None), -1), (Bounded(None, 7), 8), (Bounded(0, 7), 9)],
)
def test_false_assumption(predicate, value):
    b = Kernel(I32)
    b("assume", b.params[0], predicate=predicate, to=I32)
    assert str(value) in str(fault("assume", b, value))


def test_false_assumption_of_equal_elements():
    b = Kernel()
    b("assume", b("iota", to=tile("i32", 8)), predicate=SameElements((2,)), to=tile("i32", 8))
    fault("assume", b)
    b = Kernel()
    half = b("divi", b("iota", to=tile("i32", 8)), b.constant(2, tile("i32", 8)), to=tile("i32", 8))
    b("assume", half, predicate=SameElements((2,)), to=tile("i32", 8))
    run(b)


def test_claims_about_literals_are_the_front_ends_own():
    b = Kernel()
    b("assume", b.constant(1), predicate=DivBy(4), to=I32)
    run(b)


def test_misaligned_tensor_breaks_the_promise_of_its_pointer():
    b = Kernel(pointer("f32"))
    b("assume", b.params[0], predicate=DivBy(16), to=pointer("f32"))
    run(b, torch.zeros(8))
    fault("assume", b, torch.zeros(8)[1:])


def test_assertion():
    b = Kernel()
    block, _, _ = b("get_tile_block_id", to=[I32] * 3)
    small = b("cmpi", block, b.constant(2), to=tile("i1"), comparison_predicate="less_than")
    b("assert", small, message="too many blocks")
    error = fault("assert", b, grid=(4, 1, 1))
    assert error.block == (2, 0, 0)
    assert "too many blocks" in str(error)


def test_endless_loop():
    b = Kernel()
    with b.region() as body:
        b("continue")
    b("loop", regions=[body])
    fault("endless", b, iterations=10)


def test_ir_that_does_not_hold_together():
    b = Kernel()
    b("addi", b.constant(1, tile("i32", 4)), b.constant(1, tile("i32", 8)), to=tile("i32", 8))
    b.block.ops[0].attributes["value"] = bytes(16)
    assert fault("malformed", b).op == "addi"
    b = Kernel()
    b("permute", b.constant(1, tile("i32", 4, 4)), to=tile("i32", 4, 4), permutation=(0, 7))
    assert fault("malformed", b).op == "permute"
    b = Kernel()
    with b.region() as body:
        b("continue")
    b("for", b.constant(0), b.constant(1), b.constant(1), regions=[body])
    assert fault("malformed", b).op == "for"
    b = Kernel(pointer("f32"))
    b("load_ptr_tko", b.params[0], to=[tile("f32")])
    assert fault("malformed", b, torch.zeros(1)).op == "load_ptr_tko"


def test_wrong_number_of_arguments():
    assert "takes 1 launch parameters" in str(fault("arguments", Kernel(I32), 1, 2))
