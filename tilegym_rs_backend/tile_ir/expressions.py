# SPDX-License-Identifier: MIT
"""Expressions by number: two that are equal have the same, in all graphs that are compared."""

from __future__ import annotations

from collections.abc import Hashable
from collections.abc import Sequence

from tilegym_rs_backend.tile_ir.constants import plain
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType
from tilegym_rs_backend.tile_ir.types import Type


class Expressions:
    """Numbers for expressions, shared by the graphs that are compared: equal expressions, equal numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.splats: dict[int, bytes] = {}
        self.joins: dict[int, frozenset[int]] = {}
        self.reshaped: dict[int, int] = {}

    def number(self, key: Hashable) -> int:
        """The number of an expression."""
        return self._numbers.setdefault(key, len(self._numbers))

    def constant(self, kind: Type, data: bytes) -> int:
        """A constant tile; elements that are all equal count as one."""
        data = plain(data, kind)
        number = self.number(("constant", kind, data))
        element = kind.element if isinstance(kind, TileType) else None
        if isinstance(element, ScalarType) and len(data) == max(1, element.bits // 8):
            self.splats[number] = data
        return number

    def join(self, tokens: Sequence[int]) -> int:
        """One token for several; the kernel's first token orders nothing."""
        members: set[int] = set()
        for token in tokens:
            members |= self.joins.get(token, frozenset((token,)))
        members.discard(self.root)
        if not members:
            return self.root
        if len(members) == 1:
            return members.pop()
        found = self.number(("join", frozenset(members)))
        self.joins[found] = frozenset(members)
        return found

    @property
    def root(self) -> int:
        """The token that orders nothing."""
        return self.number("first token")
