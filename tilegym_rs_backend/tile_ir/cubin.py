# SPDX-License-Identifier: MIT
"""Read a cubin: per kernel its machine code and the resources it asks of an SM.

A cubin is an ELF file. Code lies in ``.text.<kernel>``; registers, stack frame, barriers, block size and the parameter
area are attributes in ``.nv.info`` and ``.nv.info.<kernel>``; static shared memory is as large as
``.nv.shared.<kernel>``.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegym_rs_backend.errors import TilegymRsError

_EM_CUDA = 190
_SHT_SYMTAB, _SHT_STRTAB, _SHT_NOBITS = 2, 3, 8
_SHF_COMPRESSED = 0x800
_SECTION_HEADER, _SYMBOL = 64, 24
_MAX_SECTIONS = 4096
_MAX_SYMBOLS = 1 << 14
_LONGEST_NAME = 1 << 12

# .nv.info attributes.
_PARAM_CBANK = 0x0A
_PARAM, _PARAM_V2 = 0x17, 0x45
_REQUIRED_THREADS = 0x10
_FRAME_SIZE = 0x11
_MAX_REGISTERS = 0x1B
_REGISTER_COUNT = 0x2F
_BARRIER_COUNT = 0x4C
_FORMAT_SIZED = 4


class CubinError(TilegymRsError):
    """The bytes are no cubin, or a damaged one."""


@dataclass(frozen=True)
class CubinKernel:
    """One kernel of a cubin; sizes in bytes.

    Attributes:
        symbol: the entry's name in the file.
        text: its machine code.
        registers: registers per thread at launch (a warp-specialized kernel redistributes them), 0 when not recorded.
        frame_bytes: stack per thread; more than 0 means spills or local arrays.
        shared_bytes: static shared memory per block.
        barriers: named barriers used.
        threads: threads per block (x * y * z), 0 when the code does not fix it.
        parameter_base: offset of the parameters in constant bank 0; ``parameter_bytes`` is their size.
        parameters: the size of each, in order.
    """

    symbol: str
    text: bytes
    registers: int = 0
    frame_bytes: int = 0
    shared_bytes: int = 0
    barriers: int = 0
    threads: int = 0
    parameter_base: int = 0
    parameter_bytes: int = 0
    parameters: tuple[int, ...] = ()

    def resources(self) -> dict[str, int]:
        """What a report shows of the kernel."""
        return {
            "text_bytes": len(self.text),
            "registers": self.registers,
            "frame_bytes": self.frame_bytes,
            "shared_bytes": self.shared_bytes,
            "barriers": self.barriers,
            "threads": self.threads,
        }


@dataclass(frozen=True)
class Cubin:
    """The kernels of a cubin by symbol, and ``arch``, the GPU it is for (``"sm_90"``)."""

    kernels: Mapping[str, CubinKernel]
    arch: str

    def only(self) -> CubinKernel:
        """The kernel of a cubin that holds exactly one.

        Raises:
            CubinError: there are none or several.
        """
        if len(self.kernels) != 1:
            raise CubinError(
                f"One kernel was expected in the cubin, it holds {len(self.kernels)}: {sorted(self.kernels)}."
            )
        return next(iter(self.kernels.values()))


def read_cubin(data: bytes) -> Cubin:
    """Parse a cubin.

    Raises:
        CubinError: for anything but a well-formed ELF file for a CUDA GPU; no other exception leaves this function.
    """
    _check_layout(data)
    try:
        return _read(data)
    except CubinError:
        raise
    except Exception as error:  # pyelftools answers damage with whatever its parsing step happens to raise
        raise CubinError(f"The cubin ({len(data)} bytes) is damaged: {type(error).__name__}: {error}") from error


def _check_layout(data: bytes) -> None:
    """Refuse what would make the ELF reader loop or allocate beyond the file."""
    if len(data) < 64 or data[:4] != b"\x7fELF":
        raise CubinError(f"These {len(data)} bytes are no ELF file, so no cubin.")
    if data[4] != 2 or data[5] != 1:
        raise CubinError("The ELF file is not 64-bit little-endian, so no cubin.")
    machine = int.from_bytes(data[18:20], "little")
    if machine != _EM_CUDA:
        raise CubinError(f"The ELF file is for machine {machine}, not for a CUDA GPU ({_EM_CUDA}).")
    table = int.from_bytes(data[40:48], "little")
    entry_size, count = struct.unpack_from("<HH", data, 58)
    if entry_size != _SECTION_HEADER or not 1 <= count <= _MAX_SECTIONS or table + count * entry_size > len(data):
        raise CubinError(
            f"The cubin's section table ({count} entries of {entry_size} bytes at {table}) is damaged or cut off."
        )
    for index in range(count):
        _, kind, flags = struct.unpack_from("<IIQ", data, table + index * entry_size)
        offset, size = struct.unpack_from("<QQ", data, table + index * entry_size + 24)
        if kind == _SHT_STRTAB and _longest_name(data[offset : offset + size]) > _LONGEST_NAME:
            raise CubinError(f"Section {index} of the cubin holds a name of more than {_LONGEST_NAME} bytes.")
        if kind == _SHT_SYMTAB and size > _MAX_SYMBOLS * _SYMBOL:
            raise CubinError(f"Section {index} of the cubin holds more than {_MAX_SYMBOLS} symbols.")
        if kind not in (0, _SHT_NOBITS) and (offset + size > len(data) or flags & _SHF_COMPRESSED):
            raise CubinError(
                f"Section {index} of the cubin lies outside the file's {len(data)} bytes: it is damaged or cut off."
            )


def _longest_name(strings: bytes) -> int:
    return max(map(len, strings.split(b"\0")))


def _content(section: Any) -> bytes:
    """The bytes of a section that has to have some in the file."""
    if section["sh_type"] == "SHT_NOBITS":
        raise CubinError(f"Section {section.name} of the cubin has no content.")
    data: bytes = section.data()
    return data


def _read(data: bytes) -> Cubin:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    elf = ELFFile(io.BytesIO(data))
    sections: dict[str, Any] = {}
    for section in elf.iter_sections():
        if sections.setdefault(section.name, section) is not section and section.name.startswith((".text.", ".nv.")):
            raise CubinError(f"The cubin has two sections {section.name}.")
    table = sections.get(".symtab")
    symbols = [symbol.name for symbol in table.iter_symbols()] if isinstance(table, SymbolTableSection) else []
    shared: dict[tuple[int, str], int] = {}
    if ".nv.info" in sections:
        for attribute, payload in _attributes(_content(sections[".nv.info"])):
            if attribute in (_REGISTER_COUNT, _FRAME_SIZE) and len(payload) == 8:
                index, value = struct.unpack("<II", payload)
                if index < len(symbols):
                    shared[attribute, symbols[index]] = value
    kernels: dict[str, CubinKernel] = {}
    for name, section in sections.items():
        if not name.startswith(".text."):
            continue
        symbol = name.removeprefix(".text.")
        info = sections.get(f".nv.info.{symbol}")
        attributes = list(_attributes(_content(info))) if info is not None else []
        own = dict(attributes)
        smem = sections.get(f".nv.shared.{symbol}")
        threads = (
            struct.unpack("<III", own[_REQUIRED_THREADS]) if len(own.get(_REQUIRED_THREADS, b"")) == 12 else (0, 0, 0)
        )
        bank = struct.unpack("<IHH", own[_PARAM_CBANK]) if len(own.get(_PARAM_CBANK, b"")) == 8 else (0, 0, 0)
        # Before ELF ABI 8 the register count was the top byte of the section's info field.
        registers = shared.get((_REGISTER_COUNT, symbol), int(section["sh_info"]) >> 24)
        kernels[symbol] = CubinKernel(
            symbol=symbol,
            text=_content(section),
            registers=registers,
            frame_bytes=shared.get((_FRAME_SIZE, symbol), 0),
            shared_bytes=int(smem["sh_size"]) if smem is not None else 0,
            barriers=own[_BARRIER_COUNT][0] if own.get(_BARRIER_COUNT) else 0,
            threads=threads[0] * threads[1] * threads[2],
            parameter_base=bank[1],
            parameter_bytes=bank[2],
            parameters=_parameters(attributes),
        )
    return Cubin(kernels, f"sm_{_arch_number(elf)}")


def _parameters(attributes: list[tuple[int, bytes]]) -> tuple[int, ...]:
    """The sizes of the parameters: each has an attribute with its ordinal, of which there are two forms."""
    sizes: dict[int, int] = {}
    for attribute, payload in attributes:
        if attribute in (_PARAM, _PARAM_V2) and len(payload) == 12:
            _, ordinal, _, packed = struct.unpack("<IHHI", payload)
            sizes[ordinal] = packed >> 18 if attribute == _PARAM else packed & 0xFFFF
    return tuple(sizes[ordinal] for ordinal in sorted(sizes))


def _arch_number(elf: Any) -> int:
    flags = int(elf.header["e_flags"])
    # ABI 8 keeps the SM number in bits 8-15, older files in bits 0-7.
    return (flags >> 8) & 0xFF if elf.header["e_ident"]["EI_ABIVERSION"] >= 8 else flags & 0xFF


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (attribute, payload); the formats without a payload carry up to two value bytes in the header."""
    offset = 0
    while offset < len(data):
        if offset + 4 > len(data):
            raise CubinError("A .nv.info section of the cubin is cut off.")
        form, attribute, value = struct.unpack_from("<BBH", data, offset)
        offset += 4
        if form == _FORMAT_SIZED:
            if offset + value > len(data):
                raise CubinError("A .nv.info section of the cubin is cut off.")
            yield attribute, data[offset : offset + value]
            offset += value
        else:
            yield attribute, struct.pack("<H", value)
