# SPDX-License-Identifier: MIT
"""Write small cubins: just enough ELF for the reader, with every field under the test's control."""

from __future__ import annotations

import struct

REGISTERS, FRAME, BARRIERS, THREADS, BANK = 0x2F, 0x11, 0x4C, 0x10, 0x0A


def attribute(kind: int, payload: bytes | int) -> bytes:
    if isinstance(payload, int):
        return struct.pack("<BBH", 2, kind, payload)
    return struct.pack("<BBH", 4, kind, len(payload)) + payload


def instruction(low: int, form: int = 1, offset: int = 0, bank: int = 0) -> bytes:
    """A 16-byte instruction: opcode bits, operand form, and a constant operand's bank and byte offset."""
    value = low & 0x1FF | form << 9 | (offset // 4) << 40 | bank << 54
    return value.to_bytes(16, "little")


def cubin(
    text: bytes = bytes(32),
    symbol: str = "k",
    *,
    registers: int = 40,
    frame: int = 0,
    shared: int = 0,
    base: int = 0x210,
    size: int = 64,
    machine: int = 190,
    global_info: bytes | None = None,
    more: bytes = b"",
) -> bytes:
    strings = b"\0" + symbol.encode() + b"\0"
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 3, 0, len(text))
    info = global_info
    if info is None:
        info = attribute(REGISTERS, struct.pack("<II", 1, registers)) + attribute(FRAME, struct.pack("<II", 1, frame))
    own = attribute(THREADS, struct.pack("<III", 32, 4, 1)) + attribute(BARRIERS, 2)
    own += attribute(BANK, struct.pack("<IHH", 7, base, size)) + more
    bodies = [  # name, type, content, size, link, entry size
        ("", 0, b"", 0, 0, 0),
        (".strtab", 3, strings, len(strings), 0, 0),
        (".symtab", 2, symbols, len(symbols), 1, 24),
        (f".text.{symbol}", 1, text, len(text), 0, 0),
        (".nv.info", 0x70000000, info, len(info), 0, 0),
        (f".nv.info.{symbol}", 0x70000000, own, len(own), 0, 0),
        (f".nv.shared.{symbol}", 8, b"", shared, 0, 0),
    ]
    names = b""
    offsets = []
    for name, *_ in [*bodies, (".shstrtab",)]:
        offsets.append(len(names))
        names += name.encode() + b"\0"
    bodies.append((".shstrtab", 3, names, len(names), 0, 0))
    data = bytearray(64)
    headers = b""
    for (_, kind, content, length, link, entry), name in zip(bodies, offsets, strict=True):
        headers += struct.pack("<IIQQQQIIQQ", name, kind, 0, 0, len(data), length, link, 0, 1, entry)
        data += content
    ident = b"\x7fELF" + bytes([2, 1, 1, 65, 8]) + bytes(7)
    rest = struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, len(data), 0x6005A04, 64, 56, 0, 64, len(bodies), 7)
    data[:64] = ident + rest
    return bytes(data + headers)
