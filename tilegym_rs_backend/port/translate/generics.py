# SPDX-License-Identifier: MIT
"""Const generics of a translated kernel: the kernel's constants, and numbers derived from them.

Rust allows no arithmetic in type positions, so each compound expression that a type needs is a generic of its own,
computed by the launcher. A floating-point constant is passed as its bits: const generics are i32 or bool.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilegym_rs_backend.port.translate.provenance import Expression


@dataclass(frozen=True)
class Generic:
    """One const generic.

    Attributes:
        name: in the text.
        expression: over the kernel's constants, in Python's syntax.
        encoding: ``"i32"``, or ``"f32"``, whose bits are passed.
        value: the i32 that the translated launch passes.
    """

    name: str
    expression: str
    encoding: str
    value: int


class Generics:
    """Const generics in order of first use."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self._constants = dict(constants)
        self._found: dict[tuple[str, str], Generic] = {}

    def integer(self, expression: Expression) -> str:
        """The generic that holds an integer expression."""
        return self._add(expression, "i32", int(expression.evaluate(self._constants)))

    def float_bits(self, expression: Expression) -> str:
        """The generic that holds the bits of a float expression in f32."""
        return self._add(expression, "f32", float_bits(float(expression.evaluate(self._constants)), "f32"))

    def _add(self, expression: Expression, encoding: str, value: int) -> str:
        key = (str(expression), encoding)
        if key not in self._found:
            stem = expression.identifier().upper()
            if encoding != "i32":
                stem = f"{stem}_BITS"
            # A Rust constant is upper case and ASCII, and `E` is the type generic.
            stem = re.sub(r"[^0-9A-Z_]", "_", stem)
            stem = f"N_{stem}" if stem == "E" or stem[0].isdigit() else stem
            name, number = stem, 2
            while name in self.names:
                name, number = f"{stem}_{number}", number + 1
            self._found[key] = Generic(name, str(expression), encoding, value)
        return self._found[key].name

    @property
    def names(self) -> frozenset[str]:
        """All names so far."""
        return frozenset(generic.name for generic in self._found.values())

    def listed(self) -> tuple[Generic, ...]:
        """In declaration order."""
        return tuple(self._found.values())

    def baked(self) -> tuple[str, ...]:
        """The kernel's constants that no generic depends on: their values are part of the text."""
        used = " ".join(generic.expression for generic in self._found.values())
        words = set("".join(c if c.isalnum() or c == "_" else " " for c in used).split())
        return tuple(f"{name} = {value!r}" for name, value in self._constants.items() if name not in words)


def float_bits(value: float, encoding: str) -> int:
    """The bits of ``value`` rounded to ``encoding``, as a signed integer of its width."""
    if encoding == "f32":
        return int(struct.unpack("<i", struct.pack("<f", value))[0])
    if encoding == "f16":
        return int(struct.unpack("<h", struct.pack("<e", value))[0])
    if encoding == "bf16":
        return _bf16_bits(value)
    raise ValueError(f"no bit pattern for {encoding}")


def _bf16_bits(value: float) -> int:
    """Round to nearest even on the f32 bits; NaN keeps a quiet bit."""
    word = int(struct.unpack("<I", struct.pack("<f", value))[0])
    rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16
    half = ((word >> 16) | 0x40 if math.isnan(value) else rounded) & 0xFFFF
    return half - 0x10000 if half & 0x8000 else half
