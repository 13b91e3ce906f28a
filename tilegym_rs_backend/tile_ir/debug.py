# SPDX-License-Identifier: MIT
"""Source lines of a bytecode file: the debug section, resolved on demand."""

from __future__ import annotations

from tilegym_rs_backend.tile_ir.container import Strings
from tilegym_rs_backend.tile_ir.container import read_table
from tilegym_rs_backend.tile_ir.model import SourceLoc
from tilegym_rs_backend.tile_ir.stream import Stream
from tilegym_rs_backend.tile_ir.stream import TileIrError

_UNKNOWN, _UNIT, _FILE, _BLOCK, _LOC, _SUBPROGRAM, _CALL = range(7)
# Scopes and call chains deeper than this are a cycle in a damaged file.
_MAX_CHAIN = 64


class DebugInfo:
    """The debug section: one list of entry numbers per function, and the entries."""

    def __init__(self, section: Stream | None, strings: Strings) -> None:
        self._strings = strings
        self._indices: list[tuple[int, ...]] = []
        self._records: list[Stream] = []
        self._locs: dict[int, SourceLoc | None] = {0: None}
        self._depths: dict[int, int] = {}
        self._functions: dict[int, str] = {}
        if section is not None:
            self._read(section)

    def _read(self, section: Stream) -> None:
        functions = section.count("functions with debug info", 4)
        section.align(4, section.start)
        at = section.position
        starts = [section.unsigned(4) for _ in range(functions)]
        total = section.count("debug numbers", 8)
        section.align(8, section.start)
        numbers = tuple(section.unsigned(8) for _ in range(total))
        starts.append(total)
        for index in range(functions):
            if not starts[index] <= starts[index + 1] <= total:
                raise section.fail(f"debug numbers of function {index} are out of order", at + 4 * index)
            self._indices.append(numbers[starts[index] : starts[index + 1]])
        self._records = read_table(section, 4, "debug entries")

    def of_function(self, number: int) -> tuple[int, ...]:
        """Entry numbers of the ``number``-th function (from 1): its own, then one per operation in file order."""
        return self._indices[number - 1] if 0 < number <= len(self._indices) else ()

    def loc(self, number: int) -> SourceLoc | None:
        """The source line that entry ``number`` stands for, None for an unknown one."""
        if number in self._locs:
            return self._locs[number]
        # A call site is (callee, caller): follow the callers, then build the chain from its outer end.
        chain: list[int] = []
        current = number
        while current and current not in self._locs:
            stream, tag = self._open(current)
            if len(chain) >= _MAX_CHAIN:
                raise stream.fail("debug entries refer to one another without end")
            chain.append(current)
            if tag != _CALL:
                break
            stream.varint()
            current = stream.varint()
        # What a chain joins was resolved before, with a length of its own.
        depth = self._depths.get(current, 0)
        for each in reversed(chain):
            depth += 1
            if depth > _MAX_CHAIN:
                raise self._open(each)[0].fail(f"calls are inlined through more than {_MAX_CHAIN} others")
            self._locs[each], self._depths[each] = self._resolve(each), depth
        return self._locs[number]

    def _open(self, number: int) -> tuple[Stream, int]:
        """Entry ``number``, past its tag, and the tag."""
        if not 0 < number <= len(self._records):
            at = self._records[-1].end if self._records else 0
            raise TileIrError(f"debug entry {number} of {len(self._records)}", at)
        record = self._records[number - 1]
        stream = Stream(record.data, record.start, record.end)
        return stream, stream.u8()

    def _resolve(self, number: int) -> SourceLoc | None:
        stream, tag = self._open(number)
        if tag == _LOC:
            scope = stream.varint()
            file = self._strings.read(stream)
            return SourceLoc(file, stream.varint(), stream.varint(), self._function(scope))
        if tag == _SUBPROGRAM:
            file = self._file(stream.varint())
            line = stream.varint()
            return SourceLoc(file, line, 0, self._strings.read(stream))
        if tag == _CALL:
            callee, caller = stream.varint(), stream.varint()
            inner = self._resolve_plain(callee)
            outer = self._locs.get(caller)
            if inner is None:
                return outer
            return SourceLoc(inner.file, inner.line, inner.column, inner.function, outer)
        return None

    def _resolve_plain(self, number: int) -> SourceLoc | None:
        """The callee of a call site; where that is a call site again, its own innermost line."""
        for _ in range(_MAX_CHAIN):
            if number == 0:
                return None
            stream, tag = self._open(number)
            if tag != _CALL:
                return self._resolve(number)
            number = stream.varint()
        raise stream.fail("debug entries refer to one another without end")

    def _function(self, scope: int) -> str:
        """The name of the function around ``scope``."""
        if scope in self._functions:
            return self._functions[scope]
        current, name = scope, ""
        for _ in range(_MAX_CHAIN):
            if current == 0:
                break
            stream, tag = self._open(current)
            if tag == _SUBPROGRAM:
                stream.varint()
                stream.varint()
                name = self._strings.read(stream)
                break
            if tag != _BLOCK:
                break
            current = stream.varint()
        else:
            raise stream.fail("debug entries refer to one another without end")
        self._functions[scope] = name
        return name

    def _file(self, number: int) -> str:
        stream, tag = self._open(number)
        if tag != _FILE:
            raise stream.fail(f"debug entry {number} is no file")
        name, directory = self._strings.read(stream), self._strings.read(stream)
        return f"{directory}/{name}" if directory and not name.startswith("/") else name
