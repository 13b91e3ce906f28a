# SPDX-License-Identifier: MIT
"""Files that are no bytecode, or damaged on purpose: each is refused with what is wrong and where."""

from __future__ import annotations

import pytest
import raw
from ir_writer import integers
from ir_writer import signed
from ir_writer import table
from ir_writer import varint
from raw import CONSTANTS
from raw import DEBUG
from raw import FUNCTIONS
from raw import GLOBALS
from raw import GOOD
from raw import I32
from raw import NOTHING
from raw import PRODUCER
from raw import STRINGS
from raw import TYPES
from raw import file
from raw import function
from raw import functions
from raw import op

from tilegym_rs_backend.tile_ir.printer import show
from tilegym_rs_backend.tile_ir.reader import TileIrError
from tilegym_rs_backend.tile_ir.reader import read_module

OVERLONG = b"\x80" * 12 + b"\x01"
HUGE = varint((1 << 64) - 1)


def offsets(*values: int, data: bytes = b"kx") -> bytes:
    """A table with offsets of its own."""
    head = varint(len(values))
    return head + bytes(-len(head) % 4) + b"".join(v.to_bytes(4, "little") for v in values) + data


def types(*records: bytes) -> dict[int, bytes]:
    """A file whose kernel has type 0, the first of these."""
    return {TYPES: table(list(records), 4)}


def body(code: bytes, **more: bytes) -> dict[int, bytes]:
    return {FUNCTIONS: functions(function(code + raw.RETURN))}


def chain(length: int) -> list[bytes]:
    """Function types, each with the one before it as its parameter."""
    return [NOTHING, *(b"\x10\x01" + varint(i) + b"\x00" for i in range(length))]


def wide(levels: int, width: int) -> list[bytes]:
    """Function types of `width` parameters each: spelled out, the last has width ** levels."""
    return [NOTHING, *(b"\x10" + varint(width) + varint(i) * width + b"\x00" for i in range(levels))]


def tile(*extents: int) -> list[bytes]:
    return [b"\x10\x01\x01\x00", b"\x0d\x02" + integers(extents, 8), I32]


def view(tile_shape: tuple[int, ...], extents: tuple[int, ...], strides: tuple[int, ...], tail: bytes) -> list[bytes]:
    whole = b"\x0e\x00\x03" + integers(extents, 8) + integers(strides, 8)
    return [b"\x10\x01\x01\x00", b"\x0f" + tail[:1] + integers(tile_shape, 4) + b"\x02" + tail[1:], whole, b"\x03"]


def locations(entries: list[bytes], numbers: tuple[int, ...], code: bytes = b"") -> dict[int, bytes]:
    """A debug section for one function, and the function that uses it."""
    out = varint(1) + bytes(3) + bytes(4) + varint(len(numbers))
    out += bytes(-len(out) % 8) + b"".join(n.to_bytes(8, "little") for n in numbers)
    count = varint(len(entries))
    out += count + bytes(-(len(out) + len(count)) % 4) + table(entries, 4)[len(count) + -len(count) % 4 :]
    return {DEBUG: out, FUNCTIONS: functions(function(code + raw.RETURN, loc=1))}


LOC = b"\x04\x00\x00\x01\x01"
CALLS = [LOC, *(b"\x06\x01" + varint(i) for i in range(1, 80))]
TOKENS = op("make_token", b"\x03") * 79
MEMORY = table([varint(4) + bytes(4)], 8)

FILES = {
    "empty": (b"", "does not start with"),
    "magic alone": (b"\x7fTileIR\0", "cut off inside the header"),
    "another magic": (b"\x7fTileIS\0" + file()[8:], "does not start with"),
    "format 13.5": (file(version=(13, 5)), r"format 13\.5 is not read here"),
    "format 12.9": (file(version=(12, 9)), r"format 12\.9 is not read here"),
    "format 0.0": (file(version=(0, 0)), r"format 0\.0 is not read here"),
    "format 255.255": (file(version=(255, 255)), r"format 255\.255 is not read here"),
    "preview tag": (file(tag=0xFFFF), "preview features"),
    "no end mark": (file(end=b""), "a byte was expected"),
    "garbage after the end": (file(end=b"\0garbage"), "7 bytes are left over after the end mark"),
    "end mark with the alignment bit": (file(end=b"\x80x"), "left over after the end mark"),
    "section 127": (file(end=b"\x7f\x00\x00"), "section 127 is unknown"),
    "a section twice": (file(end=b"\x07\x01\x00\x07\x01\x00\x00"), "a second producer section"),
    "section of 2^64 bytes": (file(lengths={STRINGS: (1 << 64) - 1}), "bytes were expected"),
    "section one byte too long": (file(lengths={STRINGS: len(GOOD[STRINGS]) + 2}), "bytes were expected"),
    "section one byte too short": (file(lengths={FUNCTIONS: len(GOOD[FUNCTIONS]) - 1}), "left over after the end mark"),
    "alignment 0": (file({STRINGS: None}, end=b"\x81\x00\x00\x00"), "section alignment of 0"),
    "alignment 2^63": (file({STRINGS: None}, end=b"\x81\x00" + varint(1 << 63)), "section alignment of 9223372036854"),
    "overlong length": (file({STRINGS: None}, end=b"\x01" + OVERLONG), "a number of more than 10 bytes"),
    "no functions": (file({FUNCTIONS: None}), "no function section"),
    "no strings": (file({STRINGS: None}), "string 0 of 0"),
    "no types": (file({TYPES: None}), "type 0 of 0"),
    "string offsets beyond": (file({STRINGS: offsets(0, 1 << 31)}), "strings has offsets out of order at entry 0"),
    "string offsets backwards": (file({STRINGS: offsets(0, 2, 1)}), "strings has offsets out of order at entry 1"),
    "string offset 1 first": (file({STRINGS: offsets(1, 2)}), "first offset of the table of strings is 1"),
    "2^60 strings": (file({STRINGS: varint(1 << 60) + bytes(8)}), "strings are announced"),
    "string not UTF-8": (file({STRINGS: table([b"\xff\xfe"], 4)}), "string 0 is not UTF-8"),
    "producer out of range": (file({PRODUCER: varint(9)}), "string 9 of 2"),
    "2^64 functions": (file({FUNCTIONS: HUGE}), "functions are announced"),
    "a function too many": (file({FUNCTIONS: functions(function(), count=2)}), "are announced|cut off|expected"),
    "bytes after the functions": (file({FUNCTIONS: GOOD[FUNCTIONS] + b"more than 8"}), "left over after the functions"),
    "function name out of range": (file({FUNCTIONS: functions(function(name=7))}), "string 7 of 2"),
    "function of type i32": (file({FUNCTIONS: functions(function(type=1))}), "has ScalarType as its type"),
    "function flags": (file({FUNCTIONS: functions(function(flags=0xF2))}), "unknown function flags 0xf2"),
    "hints without a tag": (file({FUNCTIONS: functions(function(flags=6))}), "hints were expected"),
    "body beyond the section": (file({FUNCTIONS: functions(function(length=1 << 40))}), "bytes were expected"),
    "body cut off": (file({FUNCTIONS: functions(function(body=raw.RETURN[:-1]))}), "cut off inside a number"),
    "two of one name": (file({FUNCTIONS: functions(function(), function())}), "a second definition of @k"),
    "a global of the kernel's name": (
        file({GLOBALS: varint(1) + b"\x00\x02\x00\x00\x00\x00", CONSTANTS: MEMORY}),
        "a second definition of @k",
    ),
    "2^60 globals": (file({GLOBALS: varint(1 << 60)}), "globals are announced"),
    "global of no constant": (file({GLOBALS: varint(1) + b"\x01\x02\x05\x00\x00\x00"}), "constant 5 of 0"),
    "constant longer than its record": (
        file({GLOBALS: varint(1) + b"\x01\x02\x00\x00\x00\x00", CONSTANTS: table([varint(99) + b"ab"], 8)}),
        "99 bytes are announced",
    ),
    "empty body": (file({FUNCTIONS: functions(function(body=b""))}), "ends without an operation"),
    "two returns": (file({FUNCTIONS: functions(function(body=raw.RETURN * 2))}), "return in the middle of a block"),
    "break outside a loop": (file({FUNCTIONS: functions(function(body=op("break", b"\0\0")))}), "ends with break"),
    "opcode 2^63": (file(body(varint(1 << 63))), "opcode 9223372036854775808 is unknown"),
    "a module inside a function": (file(body(op("module"))), "operation module inside a function is unknown"),
    "an operand of itself": (file(body(op("negi", b"\x02\x00\x00"))), "negi uses value 0, 0 are visible"),
    "operand 2^64 - 1": (file(body(op("negi", b"\x02\x00" + HUGE))), "uses value 18446744073709551615"),
    "2^40 operands": (file(body(op("join_tokens", b"\x01\x03" + varint(1 << 40)))), "operands are announced"),
    "type that holds itself": (file(types(b"\x10\x01\x00\x00")), "types refer to one another without end"),
    "types in a circle": (
        file(types(b"\x10\x01\x01\x00", b"\x0d\x02" + varint(0), b"\x0c\x00\x01")),
        "types refer to one another without end",
    ),
    "tile of itself": (file(types(b"\x10\x01\x01\x00", b"\x0d\x01" + varint(0))), "types refer to one another"),
    "function types 3000 deep": (
        file({**types(*chain(3000)), FUNCTIONS: functions(function(type=3000))}),
        "a value of a function type|types refer to one another",
    ),
    "function types 60^4 wide": (
        file({**types(*wide(4, 60)), FUNCTIONS: functions(function(type=4))}),
        "a value of a function type",
    ),
    "type tag 99": (file(types(b"\x63")), "type tag 99 is unknown"),
    "bytes after a type": (file(types(NOTHING + b"x")), "left over after a type"),
    "2^40 extents": (file(types(b"\x10\x01\x01\x00", b"\x0d\x02" + varint(1 << 40), I32)), "numbers are announced"),
    "tile of 3": (file(types(*tile(3))), "no powers of two"),
    "tile of 0": (file(types(*tile(4, 0))), r"extents \[4, 0\] of a tile"),
    "tile of -4": (file(types(*tile(-4))), r"extents \[-4\] of a tile"),
    "tile of 2^25 elements": (file(types(*tile(1 << 25))), "more than 16777216 elements"),
    "tile of 2^124 elements": (file(types(*tile(1 << 62, 1 << 62))), "more than 16777216 elements"),
    "tile of 40 axes": (file(types(*tile(*[1] * 40))), "40 axes"),
    "tile of tiles": (file(types(b"\x10\x01\x01\x00", b"\x0d\x02\x00", b"\x0d\x03\x00", I32)), "a tile of TileType"),
    "view extent 0": (file(types(*view((4,), (0,), (1,), b"\x00" + integers((0,), 4)))), "a tensor view of extents"),
    "view stride -1": (file(types(*view((4,), (8,), (-1,), b"\x00" + integers((0,), 4)))), "a tensor view of extents"),
    "view tile of 3": (file(types(*view((3,), (8,), (1,), b"\x00" + integers((0,), 4)))), "no powers of two"),
    "view of another rank": (
        file(types(*view((4, 4), (8,), (1,), b"\x00" + integers((0, 1), 4)))),
        "a view of rank 2 of a tensor of rank 1",
    ),
    "dim_map that repeats": (
        file(types(*view((4, 4), (8, 8), (8, 1), b"\x00" + integers((0, 0), 4)))),
        "no permutation of 2 axes",
    ),
    "dim_map beyond": (file(types(*view((4,), (8,), (1,), b"\x00" + integers((7,), 4)))), "no permutation"),
    "padding of integers with NaN": (
        file(types(*view((4,), (8,), (1,), b"\x01" + integers((0,), 4) + b"\x02"))),
        "padding nan of i32",
    ),
    "padding 9": (file(types(*view((4,), (8,), (1,), b"\x01" + integers((0,), 4) + b"\x09"))), "padding value 9"),
    "debug entry beyond": (file(locations([LOC], (99,))), "debug entry 99 of 1"),
    "debug string beyond": (file(locations([b"\x04\x00\x09\x01\x01"], (1,))), "string 9 of 2"),
    "debug call of itself": (file(locations([b"\x06\x01\x01"], (1,))), "refer to one another without end"),
    "debug calls in a circle": (
        file(locations([b"\x06\x03\x02", b"\x06\x03\x01", LOC], (1,))),
        "refer to one another without end",
    ),
    "debug scopes in a circle": (
        file(locations([b"\x04\x02\x00\x01\x01", b"\x03\x02\x00\x01\x01"], (1,))),
        "refer to one another without end",
    ),
    "debug calls 79 deep, met one by one": (
        file(locations(CALLS, tuple(range(1, 81)), TOKENS)),
        "inlined through more than 64 others",
    ),
    "debug entry of no byte": (file(locations([b"", LOC], (1,))), "a byte was expected"),
    "debug counts": (file({DEBUG: varint(1 << 50), FUNCTIONS: functions(function(loc=1))}), "are announced"),
    "debug numbers backwards": (
        file({DEBUG: varint(2) + bytes(3) + b"\x01\0\0\0\0\0\0\0" + varint(0) + bytes(16)}),
        "out of order",
    ),
    "predicate that is a string": (
        file({**types(b"\x10\x01\x02\x00", I32, b"\x0d\x01\x00"), **body(op("assume", b"\x02\x05\x01\x00"))}),
        "assume without a predicate",
    ),
    "div_by<0>": (
        file({**types(b"\x10\x01\x02\x00", I32, b"\x0d\x01\x00"), **body(op("assume", b"\x02\x08\x00\x00\x00"))}),
        "div_by<0>",
    ),
    "attribute tag 77": (
        file({**types(b"\x10\x01\x02\x00", I32, b"\x0d\x01\x00"), **body(op("assume", b"\x02\x4d\x00"))}),
        "attribute tag 77 is unknown",
    ),
    "attributes 200 deep": (
        file({**types(b"\x10\x01\x02\x00", I32, b"\x0d\x01\x00"), **body(op("assume", b"\x02" + b"\x06\x01" * 200))}),
        "attributes nest deeper than 8|attributes are announced",
    ),
    "integer attribute of a tile": (
        file({**types(b"\x10\x01\x02\x00", I32, b"\x0d\x01\x00"), **body(op("assume", b"\x02\x01\x02" + signed(3)))}),
        "an element type was expected",
    ),
}


def test_the_file_that_all_others_are_made_of_is_good():
    module = read_module(file())
    assert show(module).splitlines()[1].startswith("entry @k()")


@pytest.mark.parametrize(("data", "message"), FILES.values(), ids=FILES.keys())
def test_refused_with_the_reason(data, message):
    with pytest.raises(TileIrError, match=message) as caught:
        read_module(data)
    assert 0 <= caught.value.offset <= len(data)


@pytest.mark.parametrize("length", range(8, len(file()), 7))
def test_every_beginning_of_a_file_is_refused(length):
    with pytest.raises(TileIrError):
        read_module(file()[:length])
