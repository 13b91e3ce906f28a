# SPDX-License-Identifier: MIT
"""Compare the machine code of two kernels: byte-identical, identical up to where parameters lie, or different."""

from __future__ import annotations

import enum

from tilegym_rs_backend.tile_ir.cubin import CubinKernel

INSTRUCTION_BYTES = 16
ASSEMBLIES = 4
"""tileiras is not deterministic: so many assemblies of each side are compared before a difference is reported."""
PATIENCE = 3
"""Times as many where the Tile IR says the same: then a difference of as many instructions is likely chance."""
# In the 128-bit encoding since sm_70: operand form in bits 9-11; a constant operand has its word offset in bits 40-53
# and its bank in bits 54-58.
_CONSTANT_FORMS = (3, 5)
_OFFSET_SHIFT = 40
_OFFSET_MASK = (1 << 14) - 1
_BANK_SHIFT = 54
_BANK_MASK = (1 << 5) - 1


class Sameness(enum.Enum):
    """How much the machine code of two kernels has in common."""

    IDENTICAL = "SASS-IDENTICAL"
    PARAMETERS = "SASS-IDENTICAL-UP-TO-PARAMETER-OFFSETS"
    DIFFERENT = "SASS-DIFFERENT"


def compare_code(ours: CubinKernel, theirs: CubinKernel) -> Sameness:
    """Compare ``.text`` of two kernels.

    ``PARAMETERS``: all instructions agree but for the constant-bank offsets at which parameters are read, and these
    offsets map one to one: the same code for another order or padding of parameters.
    """
    if ours.text == theirs.text:
        return Sameness.IDENTICAL
    if len(ours.text) != len(theirs.text) or len(ours.text) % INSTRUCTION_BYTES:
        return Sameness.DIFFERENT
    forward: dict[int, int] = {}
    backward: dict[int, int] = {}
    for start in range(0, len(ours.text), INSTRUCTION_BYTES):
        a = int.from_bytes(ours.text[start : start + INSTRUCTION_BYTES], "little")
        b = int.from_bytes(theirs.text[start : start + INSTRUCTION_BYTES], "little")
        left, right = _parameter_offset(a, ours), _parameter_offset(b, theirs)
        if left is None or right is None:
            if a != b:
                return Sameness.DIFFERENT
            continue
        if (a ^ b) & ~(_OFFSET_MASK << _OFFSET_SHIFT):
            return Sameness.DIFFERENT
        if forward.setdefault(left, right) != right or backward.setdefault(right, left) != left:
            return Sameness.DIFFERENT
    return Sameness.PARAMETERS


def differing_instructions(ours: bytes, theirs: bytes) -> tuple[int, int]:
    """Count (instructions that differ at the same position, instructions of the longer kernel)."""
    count = max(len(ours), len(theirs)) // INSTRUCTION_BYTES
    step = INSTRUCTION_BYTES
    return sum(ours[i * step : (i + 1) * step] != theirs[i * step : (i + 1) * step] for i in range(count)), count


def _parameter_offset(instruction: int, kernel: CubinKernel) -> int | None:
    """The byte offset into constant bank 0 of a parameter this instruction reads, None if it reads none."""
    if (instruction >> 9) & 7 not in _CONSTANT_FORMS or (instruction >> _BANK_SHIFT) & _BANK_MASK:
        return None
    offset = ((instruction >> _OFFSET_SHIFT) & _OFFSET_MASK) * 4
    inside = kernel.parameter_base <= offset < kernel.parameter_base + kernel.parameter_bytes
    return offset if inside else None
