# SPDX-License-Identifier: MIT
"""The translator's only failure: a construct it has no proven Rust form for, named with its Python line."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from tilegym_rs_backend.errors import TilegymRsError


class Refused(TilegymRsError):
    """A kernel that cannot be translated.

    Attributes:
        kernel: the kernel's Python name.
        file: the Python file of the construct, empty when it has no place in a file.
        line: its line, 0 when it has none.
        construct: what could not be translated, such as ``"tile_printf"``.
        reason: why.
    """

    def __init__(self, construct: str, reason: str, *, file: str = "", line: int = 0, kernel: str = "") -> None:
        self.kernel, self.file, self.line, self.construct, self.reason = kernel, file, line, construct, reason
        where = f"{file}:{line}: " if file else ""
        name = f" in kernel {kernel}" if kernel else ""
        super().__init__(f"{where}{construct}{name} cannot be translated to Rust: {reason}")


def refused(operation: Any, reason: str, construct: str = "") -> Refused:
    """Return the refusal of an operation of the front end's IR; the place is the call in the Python source."""
    place = operation.loc
    return Refused(
        construct or str(operation.op),
        reason,
        file=str(place.filename or ""),
        line=int(place.line),
    )


def base_name(path: str | None) -> str:
    """The file name alone: a generated text must not depend on where the Python file is installed."""
    return PurePath(path).name if path else ""
