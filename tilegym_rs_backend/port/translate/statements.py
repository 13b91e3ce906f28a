# SPDX-License-Identifier: MIT
"""Rust statements as they are emitted, and the tidying that changes no operation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace

_WORD = re.compile(r"[A-Za-z_]\w*")
_INDENT = "    "


@dataclass(frozen=True)
class Statement:
    """One line of a function's body.

    Attributes:
        text: without indentation; of a binding, what follows ``=`` (without the semicolon).
        depth: nesting below the function's body.
        name, type: of a binding; empty otherwise.
        mutable: ``let mut``.
        pure: without effect besides its value: it goes when the value is not used.
        comment: the statement is a comment.
    """

    text: str
    depth: int
    name: str = ""
    type: str = ""
    mutable: bool = False
    pure: bool = False
    comment: bool = False

    def render(self) -> str:
        """The line, with its semicolon."""
        if self.comment:
            return f"// {self.text}"
        if self.name:
            return f"let {'mut ' if self.mutable else ''}{self.name}: {self.type} = {self.text};"
        return self.text


class Code:
    """A function's body under construction."""

    def __init__(self) -> None:
        self.statements: list[Statement] = []
        self._depth = 0
        self._place = ""

    @property
    def depth(self) -> int:
        """Nesting of the next statement."""
        return self._depth

    def let(self, name: str, type: str, text: str, *, mutable: bool = False, pure: bool = False) -> None:
        """Bind ``name``."""
        self.statements.append(Statement(text, self._depth, name, type, mutable, pure))

    def put(self, text: str) -> None:
        """Add a statement that binds nothing."""
        self.statements.append(Statement(text, self._depth))

    def place(self, text: str) -> None:
        """Say where in the Python source the next statements come from."""
        if text and text != self._place:
            self._place = text
            self.statements.append(Statement(text, self._depth, comment=True))

    def open(self, text: str) -> None:
        """Start a block: ``text {``."""
        self.put(f"{text} {{")
        self._depth += 1

    def otherwise(self) -> None:
        """From the block of an ``if`` to its ``else``."""
        self._depth -= 1
        self.put("} else {")
        self._depth += 1

    def close(self) -> None:
        """End a block."""
        self._depth -= 1
        if self.statements[-1].text == "} else {":
            self.statements.pop()
        self.put("}")


def words(text: str) -> Iterable[str]:
    """The identifiers in a piece of Rust."""
    return _WORD.findall(text)


def tidy(statements: list[Statement], result: str = "") -> list[Statement]:
    """Drop bindings that nothing uses, names of tokens that nothing takes, and comments that say nothing.

    Args:
        statements: a function's body.
        result: the expression that the function returns.
    """
    return _comments(_tokens(_chains(_dead(statements, result), result), result))


def _uses(statements: list[Statement], result: str) -> Counter[str]:
    """How often each identifier is used by a statement that does not bind it itself."""
    found = Counter(words(result))
    for statement in statements:
        if not statement.comment:
            found.update(word for word in words(statement.text) if word != statement.name)
    return found


def _dead(statements: list[Statement], result: str) -> list[Statement]:
    uses = _uses(statements, result)
    changed = True
    while changed:
        changed = False
        for index in range(len(statements) - 1, -1, -1):
            statement = statements[index]
            if statement.pure and statement.name and not uses[statement.name]:
                uses.subtract(word for word in words(statement.text) if word != statement.name)
                statements = statements[:index] + statements[index + 1 :]
                changed = True
    return statements


_RESHAPE = re.compile(r"(\w[\w.]*)\.reshape\(shape!\[[^\]]*\]\)")


def _chains(statements: list[Statement], result: str) -> list[Statement]:
    """Write a reshape as part of the broadcast behind it, where that is its one use.

    Over other operations, constants excepted, it would be moved, which changes the machine code; an address tile cannot
    be chained.
    """
    uses = _uses(statements, result)
    kept = list(statements)
    for index in range(len(kept) - 1, -1, -1):
        first = kept[index]
        source = _RESHAPE.fullmatch(first.text) if first.pure and not first.type.startswith("PointerTile") else None
        if source is None or uses[first.name] != 1:
            continue
        behind = (n for n, s in enumerate(kept) if n > index and not (s.comment or s.text.startswith("constant(")))
        later = next(behind, index)
        second = kept[later]
        if second.depth == first.depth and second.text.startswith(f"{first.name}.broadcast("):
            kept[later] = replace(second, text=second.text.replace(first.name, first.text, 1))
            del kept[index]
    return kept


def tail(statements: list[Statement], result: str) -> tuple[list[Statement], str]:
    """A function's body and last expression: the last binding, if it is what the function returns."""
    if statements and statements[-1].name == result and not statements[-1].mutable:
        return statements[:-1], statements[-1].text
    return statements, result


def _tokens(statements: list[Statement], result: str) -> list[Statement]:
    uses = _uses(statements, result)
    return [
        replace(s, name="", type="", text=f"{s.text};")
        if s.type == "Token" and not s.mutable and not s.pure and not uses[s.name]
        else s
        for s in statements
    ]


def _comments(statements: list[Statement]) -> list[Statement]:
    kept: list[Statement] = []
    for statement in statements:
        if kept and kept[-1].comment and (statement.comment or statement.text.startswith("}")):
            kept.pop()
        kept.append(statement)
    # A place that was dropped may leave the same place on both sides.
    shown: list[Statement] = []
    place = ""
    for statement in kept:
        if statement.comment:
            if statement.text == place:
                continue
            place = statement.text
        shown.append(statement)
    return shown


def render(statements: list[Statement], depth: int) -> str:
    """The lines, indented by ``depth`` and their own nesting."""
    return "".join(f"{_INDENT * (depth + s.depth)}{s.render()}\n" for s in statements)
