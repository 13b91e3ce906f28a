# SPDX-License-Identifier: MIT
"""Which blocks count: the samples of one case as they grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from pytest_cutile_rs.timing.activity import Attribution
from pytest_cutile_rs.timing.activity import Call
from pytest_cutile_rs.timing.base import Side


@dataclass
class Slot:
    """One call in a block, before its records are known."""

    block: int
    side: str
    ident: int
    host_us: float


@dataclass
class Kept:
    """What has been collected for a case so far."""

    blocks: dict[str, list[float]]
    spans: dict[str, list[float]]
    hosts: dict[str, list[float]]
    attempted: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    unattributed: Counter[str] = field(default_factory=Counter)
    dropped: int = 0
    invalid: int = 0

    def restrict(self, sides: Mapping[str, Side]) -> None:
        """Forget the sides that are not among these."""
        for table in (self.blocks, self.spans, self.hosts):
            for side in table.keys() - sides.keys():
                del table[side]


def keep(slots: Sequence[Slot], found: Attribution, expected: Mapping[str, tuple[str, ...]], kept: Kept) -> None:
    """A block counts as a whole or not at all: one unusable call takes its partners with it."""
    calls: dict[str, list[Call]] = {}
    for slot in slots:
        call = found.call(slot.ident)
        problem = _problem(call, expected[slot.side])
        if problem:
            kept.discarded[problem] += 1
            return
        calls.setdefault(slot.side, []).append(call)
    for slot in slots:
        kept.hosts[slot.side].append(slot.host_us)
    for side, both in calls.items():
        kept.blocks[side].append(sum(c.device_ns for c in both) / len(both) / 1e3)
        kept.spans[side].append(sum(c.span_ns for c in both) / sum(c.device_ns for c in both))


def _problem(call: Call, expected: tuple[str, ...]) -> str:
    if not call.valid:
        return "invalid"
    if call.names == expected:
        return ""
    return "missing" if Counter(call.names) < Counter(expected) or not call.work else "extra"
