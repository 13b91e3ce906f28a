# SPDX-License-Identifier: MIT
"""Read numbers from bytes that may be damaged: every read is checked, every count is weighed against what is left."""

from __future__ import annotations

from tilegym_rs_backend.errors import TilegymRsError

# 64 bits need ten groups of seven. A signed 64-bit pattern written unsigned takes a 65th bit, which ten groups hold.
_MAX_VARINT_BYTES = 10


class TileIrError(TilegymRsError):
    """The bytes are no Tile IR bytecode that can be read, or a damaged one.

    Attributes:
        offset: where in the file, in bytes.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(f"Tile IR bytecode, byte {offset}: {message}")
        self.offset = offset


class Stream:
    """A cursor over ``data[start:end]``; offsets in errors are those of the whole file."""

    __slots__ = ("data", "end", "position", "start")

    def __init__(self, data: bytes, start: int = 0, end: int | None = None) -> None:
        self.data = data
        self.start = start
        self.position = start
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return self.end - self.position

    def fail(self, message: str, at: int | None = None) -> TileIrError:
        """Return the error to raise, with the cursor's offset or ``at``."""
        return TileIrError(message, self.position if at is None else at)

    def u8(self) -> int:
        """One byte."""
        if self.position >= self.end:
            raise self.fail("cut off, a byte was expected")
        value = self.data[self.position]
        self.position += 1
        return value

    def varint(self) -> int:
        """An unsigned LEB128 number."""
        position, end, data = self.position, self.end, self.data
        value = shift = 0
        while position < end:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                return value
            shift += 7
            if shift >= 7 * _MAX_VARINT_BYTES:
                raise self.fail(f"a number of more than {_MAX_VARINT_BYTES} bytes")
        raise self.fail("cut off inside a number")

    def signed(self) -> int:
        """A zigzag-coded number."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def count(self, what: str, size: int = 1) -> int:
        """A number of things of at least ``size`` bytes each that follow."""
        at = self.position
        value = self.varint()
        if value * size > self.left:
            raise self.fail(f"{value} {what} are announced, {self.left} bytes are left", at)
        return value

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        if length > self.left:
            raise self.fail(f"{length} bytes were expected, {self.left} are left")
        self.position += length
        return self.data[self.position - length : self.position]

    def sub(self, length: int) -> Stream:
        """The next ``length`` bytes as a stream of their own."""
        if length > self.left:
            raise self.fail(f"{length} bytes were expected, {self.left} are left")
        self.position += length
        return Stream(self.data, self.position - length, self.position)

    def align(self, alignment: int, base: int = 0) -> None:
        """Skip padding up to a multiple of ``alignment`` after ``base``."""
        position = self.position + (base - self.position) % alignment
        if position > self.end:
            raise self.fail("cut off inside padding")
        self.position = position

    def unsigned(self, width: int) -> int:
        """A little-endian number of ``width`` bytes."""
        return int.from_bytes(self.take(width), "little")

    def integers(self, width: int) -> tuple[int, ...]:
        """A counted list of little-endian signed numbers of ``width`` bytes."""
        raw = self.take(self.count("numbers", width) * width)
        return tuple(int.from_bytes(raw[i : i + width], "little", signed=True) for i in range(0, len(raw), width))

    def finished(self, what: str) -> None:
        """Refuse bytes that were left over."""
        if self.left:
            raise self.fail(f"{self.left} bytes are left over after {what}")
