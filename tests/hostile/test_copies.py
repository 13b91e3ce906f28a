# SPDX-License-Identifier: MIT
"""A load and a store are a copy, bit by bit: NaNs with anything in them, subnormals, bytes that are no truth value."""

from __future__ import annotations

import pytest
import torch
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile
from ir_run import TORCH
from ir_run import load
from ir_run import run
from ir_run import store

from tilegym_rs_backend.tile_ir.types import _BITS

EIGHT = ["f8E4M3FN", "f8E5M2", "f8E8M0FNU", "f8E5M3FNU", "i8"]
WIDE = {"f16": torch.int16, "bf16": torch.int16, "i16": torch.int16, "f32": torch.int32, "f64": torch.int64}
# Signaling and quiet NaNs of both signs, infinities, zeros, subnormals; the other bits at random.
ODD = {
    16: [0x7C01, 0x7DFF, 0x7E55, 0x7FFF, -1, -0x3FF, 0x7F81, -0x7F, 0x7C00, -0x400, 0, -0x8000, 1, 0x3FF, 0x80, 0x7F80],
    32: [0x7F800001, 0x7FC01234, -1, -0x7FFFFF, 0x7F800000, -0x800000, 0, -(1 << 31), 1, 0x7FFFFF],
    64: [0x7FF0000000000001, 0x7FF8123400000000, -1, -(1 << 63), 1, 0x7FF0000000000000],
}


def copy(element, raw, lanes):
    """Copy by a kernel with tiles of so many lanes: few go one by one, many as rows."""
    b = Kernel(pointer(element), pointer(element))
    store(b, b.params[1], load(b, b.params[0], element, lanes), element, lanes)
    out = torch.zeros_like(raw)
    run(b, raw.view(TORCH.get(element, raw.dtype)), out.view(TORCH.get(element, raw.dtype)))
    return out


@pytest.mark.parametrize("lanes", [8, 256])
@pytest.mark.parametrize("element", EIGHT)
def test_all_bytes(element, lanes):
    everything = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    for start in range(0, 256, lanes):
        raw = everything[start : start + lanes].clone()
        assert torch.equal(copy(element, raw, lanes), raw)


@pytest.mark.parametrize("lanes", [8, 64])
@pytest.mark.parametrize("element", WIDE)
def test_odd_floats(element, lanes):
    odd = ODD[_BITS[element]]
    raw = torch.tensor((odd * lanes)[:lanes], dtype=WIDE[element])
    assert torch.equal(copy(element, raw, lanes), raw)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_all_half_floats(element):
    raw = torch.arange(-(1 << 15), 1 << 15, dtype=torch.int32).to(torch.int16)
    assert torch.equal(copy(element, raw, 1 << 16), raw)


@pytest.mark.parametrize("lanes", [4, 32])
def test_bytes_that_are_no_truth_value_are_true(lanes):
    raw = torch.tensor([0, 1, 2, 255] * (lanes // 4), dtype=torch.uint8)
    b = Kernel(pointer("i1"), pointer("i1"))
    value = load(b, b.params[0], "i1", lanes)
    yes = b.constant(1, tile("i1", lanes))
    store(b, b.params[1], b("xori", value, yes, to=yes.type), "i1", lanes)
    out = torch.zeros_like(raw)
    run(b, raw.view(torch.bool), out.view(torch.bool))
    assert out.tolist() == [1, 0, 0, 0] * (lanes // 4)


def one_constant(data, lanes):
    b = Kernel(pointer("i1"))
    store(b, b.params[0], b("constant", to=tile("i1", lanes), value=data), "i1", lanes)
    out = torch.zeros(lanes, dtype=torch.bool)
    run(b, out)
    return "".join(str(int(each)) for each in out.tolist())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # As tileirdisasm 13.4 shows them: a bit for each, or one byte for all.
        *((b"\5", "10100000"), (b"\1", "10000000"), (b"\xff", "11111111"), (b"\0", "00000000")),
        *((b"\5\1", "1010000010000000"), (b"\1", "1" * 16), (b"\5", "1" * 16), (b"\0", "0" * 16)),
        *((b"\1", "10"), (b"\xf5", "1010"), (b"\1", "1")),
    ],
)
def test_truth_values_lie_eight_to_a_byte(data, expected):
    assert one_constant(data, len(expected)) == expected
