# SPDX-License-Identifier: MIT
"""What stops an execution: a fault with its kind, operation, tile block and source line."""

from __future__ import annotations

from dataclasses import dataclass

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SourceLoc

KINDS = (
    "out-of-bounds",
    "misaligned",
    "uninitialized",
    "race",
    "unordered",
    "assume",
    "assert",
    "arguments",
    "unsupported",
    "malformed",
    "endless",
)
"""The kinds of fault: stable names, for reports and tests."""

MALFORMED = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError, RuntimeError)
"""What numpy, torch and Python raise on operands that do not fit: only IR that breaks its rules has such."""


class ExecutionError(TilegymRsError):
    """A kernel did something undefined, or failed its own assertion.

    Attributes:
        kind: one of `KINDS`.
        op: the operation's name, ``"store_view_tko"``; empty for a bad argument.
        block: the tile block (x, y, z), None where no single one is to blame.
        loc: source line, None where the bytecode has none.
    """

    def __init__(
        self,
        kind: str,
        message: str,
        *,
        op: str = "",
        block: tuple[int, int, int] | None = None,
        loc: SourceLoc | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.op = op
        self.block = block
        self.loc = loc

    @property
    def file(self) -> str:
        """The source file, empty where unknown."""
        return self.loc.file if self.loc else ""

    @property
    def line(self) -> int:
        """The line in `file`, 0 where unknown."""
        return self.loc.line if self.loc else 0

    def __str__(self) -> str:
        where = f"{self.op} at {self.loc}" if self.loc else self.op
        block = f", block {self.block}" if self.block is not None else ""
        return f"[{self.kind}] {where}{block}: {self.args[0]}" if where else f"[{self.kind}] {self.args[0]}"


@dataclass(frozen=True)
class Site:
    """An operation's name and place, for messages."""

    opcode: str
    loc: SourceLoc | None

    @staticmethod
    def of(op: Op) -> Site:
        """Return the site of an operation."""
        return Site(op.opcode, op.loc)

    def error(self, kind: str, message: str, block: tuple[int, int, int] | None = None) -> ExecutionError:
        """Return (not raise) an error at this place."""
        return ExecutionError(kind, message, op=self.opcode, block=block, loc=self.loc)
