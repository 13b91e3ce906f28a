# SPDX-License-Identifier: MIT
"""Files that are no cubin, or a hostile one, and machine code that nearly agrees."""

from __future__ import annotations

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

GOOD = cubin(bytes(64), shared=100)
STRINGS, SYMBOLS, TEXT, INFO, OWN = 1, 2, 3, 4, 5
NOBITS = 8
TABLE = struct.unpack_from("<Q", GOOD, 40)[0]
# Fields of a section header.
NAME, KIND, FLAGS, OFFSET, SIZE, LINK, ENTRY = (
    (0, "<I"),
    (4, "<I"),
    (8, "<Q"),
    (24, "<Q"),
    (32, "<Q"),
    (40, "<I"),
    (56, "<Q"),
)


def header(at, form, value):
    out = bytearray(GOOD)
    struct.pack_into(form, out, at, value)
    return bytes(out)


def section(number, *fields):
    out = bytearray(GOOD)
    for (at, form), value in fields:
        struct.pack_into(form, out, TABLE + number * 64 + at, value)
    return bytes(out)


def name_of(number):
    return struct.unpack_from("<I", GOOD, TABLE + number * 64)[0]


def many_long_names(count, length):
    """Symbols whose names all overlap in one long string."""
    strings = b"\0" + b"A" * length + b"\0"
    symbols = bytes(24) + b"".join(struct.pack("<IBBHQQ", 1 + i % length, 0x12, 0, 3, 0, 0) for i in range(count))
    out = bytearray(GOOD[:TABLE]) + strings + symbols
    table = bytearray(GOOD[TABLE:])
    struct.pack_into("<QQ", table, STRINGS * 64 + 24, TABLE, len(strings))
    struct.pack_into("<QQ", table, SYMBOLS * 64 + 24, TABLE + len(strings), len(symbols))
    struct.pack_into("<Q", out, 40, len(out))
    return bytes(out + table)


REFUSED = {
    "nothing": (b"", "no ELF file"),
    "magic alone": (b"\x7fELF", "no ELF file"),
    "64 bytes of 0xff": (b"\xff" * 64, "no ELF file"),
    "32 bit": (header(4, "<B", 1), "not 64-bit little-endian"),
    "big endian": (header(5, "<B", 2), "not 64-bit little-endian"),
    "x86-64": (header(18, "<H", 62), "machine 62, not for a CUDA GPU"),
    "no sections": (header(60, "<H", 0), "section table"),
    "65535 sections": (header(60, "<H", 65535), "section table"),
    "section headers of 32 bytes": (header(58, "<H", 32), "section table"),
    "section table at 2^63": (header(40, "<Q", 1 << 63), "section table"),
    "names of sections nowhere": (header(62, "<H", 99), "is damaged"),
    "cut in the middle": (GOOD[: len(GOOD) // 2], "section table"),
    "one byte short": (GOOD[:-1], "section table"),
    "text of 2^63 bytes": (section(TEXT, (SIZE, 1 << 63)), "lies outside the file"),
    "text far away": (section(TEXT, (OFFSET, (1 << 64) - 64)), "lies outside the file"),
    "text without content, 2 GB of it": (section(TEXT, (KIND, NOBITS), (SIZE, 1 << 31)), "has no content"),
    "text without content, 2^60 of it": (section(TEXT, (KIND, NOBITS), (SIZE, 1 << 60)), "has no content"),
    "attributes without content": (section(OWN, (KIND, NOBITS), (SIZE, 1 << 40)), "has no content"),
    "compressed text": (section(TEXT, (FLAGS, 0x800)), "lies outside|damaged"),
    "two texts of a kernel": (section(OWN, (NAME, name_of(TEXT))), r"two sections \.text\.k"),
    "symbols of no size": (section(SYMBOLS, (ENTRY, 0)), "is damaged"),
    "symbols that link to themselves": (section(SYMBOLS, (LINK, SYMBOLS)), "is damaged"),
    "a name of 100,000 bytes": (many_long_names(10, 100_000), "holds a name of more than"),
    "a million symbols": (many_long_names(1_000_000, 100), "more than 16384 symbols"),
    "attribute cut off": (cubin(global_info=attribute(0x2F, bytes(8))[:-1]), "cut off"),
    "attribute of 65535 bytes": (cubin(global_info=b"\x04\x2f\xff\xff"), "cut off"),
}
REFUSED_OR_EMPTY = {
    "a section over another": section(INFO, (OFFSET, 0), (SIZE, 64)),
    "symbols of one byte": section(SYMBOLS, (ENTRY, 1)),
    "all names the same": section(TEXT, (NAME, 0)),
    "the text is the header": section(TEXT, (OFFSET, 0)),
    "shared memory of 2^63 bytes": section(6, (SIZE, 1 << 63)),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_reason(data, message):
    with pytest.raises(CubinError, match=message):
        read_cubin(data)


@pytest.mark.parametrize("data", REFUSED_OR_EMPTY.values(), ids=REFUSED_OR_EMPTY)
def test_what_is_legal_elf_is_read_or_refused(data):
    try:
        found = read_cubin(data)
    except CubinError:
        return
    assert all(len(kernel.text) <= len(data) for kernel in found.kernels.values())


def kernel(*instructions, base=0x210, size=64):
    return CubinKernel("k", b"".join(instructions), parameter_base=base, parameter_bytes=size)


def reads(*offsets, low=0x10, bank=0, **place):
    return kernel(*(instruction(low, 5, offset, bank) for offset in offsets), **place)


PAIRS = {
    "nothing and nothing": (kernel(), kernel(), Sameness.IDENTICAL),
    "nothing and something": (kernel(), reads(0x210), Sameness.DIFFERENT),
    "one byte short": (reads(0x210), CubinKernel("k", instruction(1)[:-1]), Sameness.DIFFERENT),
    "15 bytes, all equal": (*(CubinKernel("k", b"x" * 15),) * 2, Sameness.IDENTICAL),
    "parameters swapped": (reads(0x210, 0x218, 0x210), reads(0x218, 0x210, 0x218), Sameness.PARAMETERS),
    "parameters mixed up": (reads(0x210, 0x218, 0x210), reads(0x218, 0x210, 0x210), Sameness.DIFFERENT),
    "two parameters become one": (reads(0x210, 0x218), reads(0x210, 0x210), Sameness.DIFFERENT),
    "one parameter becomes two": (reads(0x210, 0x210), reads(0x210, 0x218), Sameness.DIFFERENT),
    "just below the parameters": (reads(0x210), reads(0x20C), Sameness.DIFFERENT),
    "just above the parameters": (reads(0x210), reads(0x250), Sameness.DIFFERENT),
    "no parameters at all": (reads(0x210, size=0), reads(0x214, size=0), Sameness.DIFFERENT),
    "another bank": (reads(0x210), reads(0x210, bank=1), Sameness.DIFFERENT),
    "another operation": (reads(0x210), reads(0x210, low=0x11), Sameness.DIFFERENT),
}


@pytest.mark.parametrize(("ours", "theirs", "expected"), PAIRS.values(), ids=PAIRS)
def test_machine_code(ours, theirs, expected):
    assert compare_code(ours, theirs) is expected
    assert compare_code(theirs, ours) is expected
