# SPDX-License-Identifier: MIT
"""The outer layer of a bytecode file: header, sections, and the tables of strings and constants in them."""

from __future__ import annotations

import itertools

from tilegym_rs_backend.tile_ir.stream import Stream
from tilegym_rs_backend.tile_ir.stream import TileIrError

MAGIC = b"\x7fTileIR\0"
OLDEST = (13, 1)
NEWEST = (13, 4)
_HEADER_BYTES = 12

END, STRINGS, FUNCTIONS, DEBUG, CONSTANTS, TYPES, GLOBALS, PRODUCER = range(8)
_SECTION_NAMES = ("end", "string", "function", "debug", "constant", "type", "global", "producer")


def read_version(data: bytes) -> tuple[int, int]:
    """Check the header and return the format's version.

    Raises:
        TileIrError: no bytecode, or of a version that this reader does not know.
    """
    if not isinstance(data, bytes) or data[: len(MAGIC)] != MAGIC:
        raise TileIrError("no Tile IR bytecode: it does not start with 7f 'TileIR' 00", 0)
    if len(data) < _HEADER_BYTES:
        raise TileIrError("cut off inside the header", len(data))
    version = (data[8], data[9])
    tag = int.from_bytes(data[10:12], "little")
    if not OLDEST <= version <= NEWEST:
        raise TileIrError(
            f"format {version[0]}.{version[1]} is not read here, only {OLDEST[0]}.{OLDEST[1]} to "
            f"{NEWEST[0]}.{NEWEST[1]}; have it written for one of these (export_kernel's bytecode_version='13.4')",
            8,
        )
    if tag:
        raise TileIrError(f"format {version[0]}.{version[1]} with preview features (tag {tag}) is not read here", 10)
    return version


def read_sections(data: bytes) -> dict[int, Stream]:
    """Split a file into its sections, by number."""
    stream = Stream(data, _HEADER_BYTES)
    sections: dict[int, Stream] = {}
    while True:
        at = stream.position
        head = stream.u8()
        number = head & 0x7F
        if number == END:
            stream.finished("the end mark")
            return sections
        if number > PRODUCER:
            raise stream.fail(f"section {number} is unknown", at)
        if number in sections:
            raise stream.fail(f"a second {_SECTION_NAMES[number]} section", at)
        length = stream.varint()
        if head & 0x80:
            alignment = stream.varint()
            if not 0 < alignment <= 4096 or alignment & (alignment - 1):
                raise stream.fail(f"a section alignment of {alignment}", at)
            stream.align(alignment)
        sections[number] = stream.sub(length)


def read_table(stream: Stream, width: int, what: str) -> list[Stream]:
    """Split a table (count, offsets of ``width`` bytes each, data) into its records."""
    count = stream.count(what, width)
    if not count:
        return []
    stream.align(width, stream.start)
    at = stream.position
    offsets = [stream.unsigned(width) for _ in range(count)]
    base, size = stream.position, stream.left
    offsets.append(size)
    if offsets[0]:
        raise stream.fail(f"the first offset of the table of {what} is {offsets[0]}", at)
    for index in range(count):
        if not offsets[index] <= offsets[index + 1] <= size:
            raise stream.fail(f"the table of {what} has offsets out of order at entry {index}", at + index * width)
    stream.position = stream.end
    return [Stream(stream.data, base + a, base + b) for a, b in itertools.pairwise(offsets)]


class Strings:
    """The string table."""

    def __init__(self, section: Stream | None) -> None:
        self._records = read_table(section, 4, "strings") if section else []
        self._decoded: dict[int, str] = {}

    def read(self, stream: Stream) -> str:
        """Read a string's number from ``stream`` and return the string."""
        at = stream.position
        index = stream.varint()
        text = self._decoded.get(index)
        if text is not None:
            return text
        if index >= len(self._records):
            raise stream.fail(f"string {index} of {len(self._records)}", at)
        record = self._records[index]
        try:
            text = record.data[record.start : record.end].decode()
        except UnicodeDecodeError as error:
            raise record.fail(f"string {index} is not UTF-8 ({error.reason})") from None
        self._decoded[index] = text
        return text


class Constants:
    """The table of constants' bytes."""

    def __init__(self, section: Stream | None) -> None:
        self._records = read_table(section, 8, "constants") if section else []
        self._taken: dict[int, bytes] = {}

    def read(self, stream: Stream) -> bytes:
        """Read a constant's number from ``stream`` and return its bytes."""
        at = stream.position
        index = stream.varint()
        data = self._taken.get(index)
        if data is not None:
            return data
        if index >= len(self._records):
            raise stream.fail(f"constant {index} of {len(self._records)}", at)
        record = self._records[index]
        body = Stream(record.data, record.start, record.end)
        data = body.take(body.count("bytes"))
        body.finished(f"constant {index}")
        self._taken[index] = data
        return data
