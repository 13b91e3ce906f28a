# SPDX-License-Identifier: MIT
"""Activity records in a form of our own, and the rule that gives each one to the call that caused it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field

KERNEL = "kernel"
MEMCPY = "memcpy"
MEMSET = "memset"


@dataclass(frozen=True)
class Work:
    """One piece of device work: a kernel, a copy or a memset; times in ns of the device clock."""

    kind: str
    name: str
    start: int
    end: int
    correlation: int

    @property
    def valid(self) -> bool:
        """A record without both timestamps, or one that ends before it starts, measures nothing."""
        return 0 < self.start < self.end

    @property
    def label(self) -> str:
        """What a report shows: the kernel's name, or ``memcpy`` / ``memset``."""
        return self.name if self.kind == KERNEL else self.kind


@dataclass
class Batch:
    """What a collector has seen since the last drain.

    ``external`` pairs the correlation id of an API call with the id that was pushed around it; the order in which
    records arrive carries no meaning. ``dropped`` counts records that the collector itself reports as lost.
    """

    work: list[Work] = field(default_factory=list)
    external: list[tuple[int, int]] = field(default_factory=list)
    dropped: int = 0

    def extend(self, other: Batch) -> None:
        """Append another batch, for records that arrived late."""
        self.work.extend(other.work)
        self.external.extend(other.external)
        self.dropped += other.dropped


@dataclass(frozen=True)
class Call:
    """The device work of one call of one side, in the order it ran on the device."""

    work: tuple[Work, ...]

    @property
    def valid(self) -> bool:
        """All of its records can be trusted."""
        return all(w.valid for w in self.work)

    @property
    def names(self) -> tuple[str, ...]:
        """Kernel names in order, copies and memsets by kind."""
        return tuple(w.label for w in self.work)

    @property
    def device_ns(self) -> int:
        """Sum of the device times; gaps between kernels are not counted."""
        return sum(w.end - w.start for w in self.work)

    @property
    def span_ns(self) -> int:
        """First start to last end."""
        return max(w.end for w in self.work) - min(w.start for w in self.work) if self.work else 0


@dataclass(frozen=True)
class Attribution:
    """Calls by pushed id; ``unattributed`` is work that no pushed id accounts for."""

    calls: dict[int, Call]
    unattributed: tuple[Work, ...]
    invalid: int

    def call(self, ident: int) -> Call:
        """The call of this id; one that left no record is empty."""
        return self.calls.get(ident, Call(()))


def attribute(batch: Batch) -> Attribution:
    """Match device work to pushed ids through the correlation ids of the API calls between push and pop."""
    owner = dict(batch.external)
    found: dict[int, list[Work]] = {}
    strays: list[Work] = []
    for work in batch.work:
        ident = owner.get(work.correlation)
        if ident is None:
            strays.append(work)
        else:
            found.setdefault(ident, []).append(work)
    calls = {ident: Call(tuple(_in_order(works))) for ident, works in found.items()}
    invalid = sum(not w.valid for w in batch.work)
    return Attribution(calls, tuple(strays), invalid)


def _in_order(works: Iterable[Work]) -> list[Work]:
    return sorted(works, key=lambda w: (w.start, w.correlation))
