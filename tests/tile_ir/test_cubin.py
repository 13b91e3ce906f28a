# SPDX-License-Identifier: MIT
from __future__ import annotations

import random
import struct

import pytest
from elf import attribute
from elf import cubin
from elf import instruction

from tilegym_rs_backend.tile_ir.cubin import CubinError
from tilegym_rs_backend.tile_ir.cubin import CubinKernel
from tilegym_rs_backend.tile_ir.cubin import read_cubin
from tilegym_rs_backend.tile_ir.machine_code import Sameness
from tilegym_rs_backend.tile_ir.machine_code import compare_code
from tilegym_rs_backend.tile_ir.machine_code import differing_instructions


def kernel(*instructions: bytes, base: int = 0x210, size: int = 64) -> CubinKernel:
    return CubinKernel("k", b"".join(instructions), parameter_base=base, parameter_bytes=size)


def test_code_and_resources_are_read():
    found = read_cubin(cubin(b"ab" * 24, registers=168, frame=24, shared=9296))
    assert found.arch == "sm_90"
    only = found.only()
    assert only.symbol == "k"
    assert only.text == b"ab" * 24
    assert only.resources() == {
        "text_bytes": 48,
        "registers": 168,
        "frame_bytes": 24,
        "shared_bytes": 9296,
        "barriers": 2,
        "threads": 128,
    }
    assert (only.parameter_base, only.parameter_bytes) == (0x210, 64)
    assert only.parameters == ()


# As tileiras writes them: an address, an extent and a bool, the last one first.
PARAMETERS = {
    0x17: [(2, 12, 0x0005_F000), (1, 8, 0x0011_F000), (0, 0, 0x0021_F400)],
    0x45: [(2, 12, 0x0000_0001), (1, 8, 0x0000_0004), (0, 0, 0x0400_0008)],
}


@pytest.mark.parametrize("form", PARAMETERS, ids=hex)
def test_parameters_are_read_in_order_in_both_forms(form):
    more = b"".join(attribute(form, struct.pack("<IHHI", 0, *fields)) for fields in PARAMETERS[form])
    assert read_cubin(cubin(more=more)).only().parameters == (8, 4, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are no ELF"),
        (b"#!/bin/sh" * 20, "no ELF file"),
        (cubin()[:200], "section table .* damaged or cut off"),
        (cubin(machine=62), "machine 62, not for a CUDA GPU"),
        (cubin(global_info=b"\x04\x2f\xff\x00"), "cut off"),
        (cubin(global_info=b"\x04"), "cut off"),
    ],
)
def test_what_is_no_cubin_is_refused(data, message):
    with pytest.raises(CubinError, match=message):
        read_cubin(data)


def test_attributes_for_unknown_symbols_and_of_unknown_kinds_are_passed_over():
    info = attribute(0x2F, b"\xff\xff\xff\x7f\x00\x00\x00\x00") + attribute(0xEE, b"abc") + attribute(0xED, 7)
    assert read_cubin(cubin(global_info=info)).only().registers == 0


def test_damage_raises_one_type_of_error_only():
    whole = cubin(bytes(range(256)), shared=100)
    generator = random.Random(7)
    refused = 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 6)):
            data[generator.randrange(len(data))] = generator.choice([0, 1, 0x7F, 0xFF, generator.randrange(256)])
        if generator.random() < 0.3:
            del data[generator.randrange(len(data)) :]
        try:
            read_cubin(bytes(data))
        except CubinError:
            refused += 1
    assert 200 < refused < 2000


def test_several_kernels_are_no_single_one():
    with pytest.raises(CubinError, match="holds 0"):
        read_cubin(cubin(symbol="k").replace(b".text.k", b".tEXt.k")).only()


def test_equal_code_is_identical_and_another_length_is_different():
    a = kernel(instruction(1), instruction(2))
    assert compare_code(a, kernel(instruction(1), instruction(2))) is Sameness.IDENTICAL
    assert compare_code(a, kernel(instruction(1))) is Sameness.DIFFERENT
    assert compare_code(a, kernel(instruction(1), instruction(3))) is Sameness.DIFFERENT
    assert differing_instructions(a.text, instruction(1)) == (1, 2)


def test_parameter_offsets_may_move_but_only_one_to_one():
    def reads(*offsets: int, **place: int) -> CubinKernel:
        return kernel(*(instruction(0x10, 5, offset) for offset in offsets), **place)

    assert compare_code(reads(0x210, 0x218), reads(0x218, 0x210)) is Sameness.PARAMETERS
    assert compare_code(reads(0x210, 0x218), reads(0x360, 0x368, base=0x360)) is Sameness.PARAMETERS
    assert compare_code(reads(0x210, 0x218), reads(0x218, 0x218)) is Sameness.DIFFERENT
    assert compare_code(reads(0x210, 0x210), reads(0x210, 0x218)) is Sameness.DIFFERENT


def test_only_constant_operands_inside_the_parameter_area_may_move():
    def one(form: int, offset: int, bank: int = 0) -> CubinKernel:
        return kernel(instruction(0x10, form, offset, bank))

    assert compare_code(one(5, 0x210), one(5, 0x214)) is Sameness.PARAMETERS
    assert compare_code(one(4, 0x210), one(4, 0x214)) is Sameness.DIFFERENT  # an immediate
    assert compare_code(one(5, 0x210, 4), one(5, 0x214, 4)) is Sameness.DIFFERENT  # another bank
    assert compare_code(one(5, 0x28), one(5, 0x2C)) is Sameness.DIFFERENT  # launch state, no parameter
    assert compare_code(one(5, 0x210), kernel(instruction(0x11, 5, 0x214))) is Sameness.DIFFERENT
