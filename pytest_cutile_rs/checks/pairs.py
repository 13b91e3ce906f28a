# SPDX-License-Identifier: MIT
"""Put the launches of both sides beside each other, for the checks that compare kernels."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from typing import Protocol


class LaunchLike(Protocol):
    """What a kernel comparison needs of a launch of either side."""

    @property
    def name(self) -> str:
        """The kernel's name in its source."""

    @property
    def grid(self) -> tuple[int, ...]:
        """Blocks in x, y, z."""

    @property
    def hints(self) -> Mapping[str, Any]:
        """Compiler hints; those left to the compiler are absent or not positive."""

    @property
    def bytecode(self) -> bytes:
        """Tile IR."""


@dataclass(frozen=True)
class Pair:
    """The i-th launch of both sides."""

    ours: LaunchLike
    theirs: LaunchLike

    def to_dict(self) -> dict[str, Any]:
        """Names, grids and hints of both sides, JSON types only."""
        return {"ours": describe(self.ours), "theirs": describe(self.theirs)}

    def launch_differences(self) -> list[str]:
        """How the launches themselves differ, kernels aside."""
        found = []
        grids = [_three(launch.grid) for launch in (self.ours, self.theirs)]
        if grids[0] != grids[1]:
            found.append(f"grid: ours {grids[0]}, theirs {grids[1]}")
        hints = [given_hints(launch.hints) for launch in (self.ours, self.theirs)]
        for name in sorted(set(hints[0]) | set(hints[1])):
            a, b = (side.get(name, "compiler's default") for side in hints)
            if a != b:
                found.append(f"{name}: ours {a}, theirs {b}")
        return found


def describe(launch: LaunchLike) -> dict[str, Any]:
    """A launch as a report shows it."""
    return {"kernel": launch.name, "grid": list(_three(launch.grid)), "hints": given_hints(launch.hints)}


def given_hints(hints: Mapping[str, Any]) -> dict[str, int]:
    """The hints that were given, under cuTile Python's names."""
    names = {"num_cta_in_cga": "num_ctas", "num_worker_warps_per_cta": "num_worker_warps"}
    return {names.get(n, n): int(v) for n, v in sorted(hints.items()) if isinstance(v, int) and v > 0}


def pair(ours: Sequence[LaunchLike], theirs: Sequence[LaunchLike]) -> list[Pair]:
    """Pairs in order of launching; surplus launches of one side have no partner (see ``count_difference``)."""
    return [Pair(a, b) for a, b in zip(ours, theirs, strict=False)]


def count_difference(ours: Sequence[LaunchLike], theirs: Sequence[LaunchLike]) -> str:
    """How the numbers of launches differ, in words; empty when they do not."""
    if len(ours) == len(theirs):
        return ""
    names = [", ".join(launch.name for launch in side) or "none" for side in (ours, theirs)]
    return f"{len(ours)} launches ({names[0]}) against {len(theirs)} ({names[1]})"


def _three(grid: Sequence[int]) -> tuple[int, ...]:
    return (*(int(extent) for extent in grid), 1, 1)[:3]
