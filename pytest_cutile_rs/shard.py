# SPDX-License-Identifier: MIT
"""One part of a suite that is spread over machines or over time: ``--cutile-rs-shard i/n``."""

from __future__ import annotations

import re
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """The ``index``-th of ``count`` parts, counted from 1."""

    index: int = 1
    count: int = 1

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``i/n``. Raises ValueError, saying what a shard is, unless 1 <= i <= n."""
        found = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"{text!r} is no shard; write i/n with 1 <= i <= n, such as 1/2")
        return cls(int(found[1]), int(found[2]))

    def part(self, members: Iterable[tuple[Hashable, T]]) -> Iterator[T]:
        """The members of this part; members with equal keys stay together.

        Keys are dealt out in turn, in the order in which they first appear: neighbours (the timed cases of an op, say)
        are spread, and the split depends on the list alone.
        """
        places: dict[Hashable, int] = {}
        for key, member in members:
            if places.setdefault(key, len(places)) % self.count == self.index - 1:
                yield member
