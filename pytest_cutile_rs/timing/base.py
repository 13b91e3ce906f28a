# SPDX-License-Identifier: MIT
"""The interface of the timing layer: what to measure (Plan), what came out (Record), and who measures (Timer).

A *side* is one implementation: a name and a callable without arguments that enqueues its work on torch's current
stream. A *block* runs every side twice in a mirrored order (A B B A, A B C C B A), so that a drift of the clocks
that is linear over a block cancels from each ratio.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from statistics import median
from typing import Any
from typing import Protocol
from typing import runtime_checkable

from pytest_cutile_rs.timing.activity import Batch

Side = Callable[[], object]


class TimingUnavailable(RuntimeError):
    """Device time cannot be measured here; ``code`` is a reason code, the text says why and how to fix it."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Plan:
    """How long to measure one case.

    Attributes:
        min_blocks: blocks measured before the first look at the numbers.
        max_blocks: the end, reached by doubling from ``min_blocks``.
        budget_s: seconds for the measured part; ``min_blocks`` are run even when they take longer.
        warm_s: seconds each side runs before anything is measured, its first call (compilation) not counted.
        flush: overwrite twice the L2 cache before each call, outside the measured range.
    """

    min_blocks: int = 20
    max_blocks: int = 200
    budget_s: float = 10.0
    warm_s: float = 0.2
    flush: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.min_blocks <= self.max_blocks:
            raise ValueError(f"blocks: need 2 <= min <= max, got {self.min_blocks} and {self.max_blocks}")

    @classmethod
    def quick(cls) -> Plan:
        """For a look, not for a gate near its threshold: 20 to 40 blocks within 2 s."""
        return cls(max_blocks=40, budget_s=2.0)


@dataclass(frozen=True)
class Record:
    """What was measured for one case; complete enough to judge it again later.

    Attributes:
        blocks: per side, device time in us of each kept block (mean of its two calls); all sides equally long.
        span: per side, median of (first start to last end) / (sum of device times): above 1.05 there are gaps.
        host_us: per side, median host time of a call in us, with the collector attached.
        kernels: per side, the names of the device work of one call, copies and memsets by kind.
        discarded: blocks not kept, by reason (``missing``, ``extra``, ``invalid``).
        dropped: records the collector reports as lost; ``invalid``: records that end before they start.
        unattributed: device work that belongs to no call, by name.
        error: reason code when there is nothing to judge, else empty; ``detail`` is its text.
    """

    name: str
    timer: str
    gating: bool
    seed: int
    sides: tuple[str, ...]
    blocks: dict[str, list[float]] = field(default_factory=dict)
    span: dict[str, float] = field(default_factory=dict)
    host_us: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    attempted: int = 0
    discarded: dict[str, int] = field(default_factory=dict)
    dropped: int = 0
    invalid: int = 0
    unattributed: dict[str, int] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    detail: str = ""

    @property
    def kept(self) -> int:
        """Blocks that count."""
        return len(self.blocks[self.sides[0]]) if self.blocks else 0

    def median_us(self, side: str) -> float:
        """Median device time of a call of this side in us; NaN when nothing was measured."""
        times = self.blocks.get(side) or [float("nan")]
        return float(median(times))

    def to_json(self) -> dict[str, Any]:
        """A dictionary of JSON types; :meth:`from_json` reads it back."""
        return asdict(self) | {
            "sides": list(self.sides),
            "kernels": {side: list(names) for side, names in self.kernels.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The record that :meth:`to_json` wrote."""
        known = dict(data)
        known["sides"] = tuple(known["sides"])
        known["kernels"] = {side: tuple(names) for side, names in known["kernels"].items()}
        return cls(**known)


Until = Callable[[Record], bool]


@runtime_checkable
class Timer(Protocol):
    """Measures cases, one after the other, in one session."""

    @property
    def label(self) -> str:
        """Which clock: ``cupti``, ``event`` or ``fake``."""

    @property
    def gating(self) -> bool:
        """Whether a verdict may rest on this clock."""

    def open(self) -> None:
        """Start the session; raises TimingUnavailable, and RuntimeError when one is open already."""

    def close(self) -> None:
        """End the session; harmless when none is open."""

    def facts(self) -> dict[str, Any]:
        """Versions, libraries and device of the session, for the report."""

    def pair(
        self, name: str, sides: Mapping[str, Side], plan: Plan, *, seed: int = 0, until: Until | None = None
    ) -> Record:
        """Measure all sides of one case together.

        The first two sides are the pair; further ones are references measured in the same blocks. A side of the pair
        that raises, or that leaves no device work, gives a Record with ``error`` set; a reference that does so during
        the warm-up is left out and named in ``detail``. ``until`` is asked after each look whether the record is good
        enough to stop before ``max_blocks``.
        """


class Collector(Protocol):
    """One clock: what differs between CUPTI, CUDA events and the fake. All of it runs on the calling thread."""

    @property
    def label(self) -> str:
        """See :class:`Timer`."""

    @property
    def gating(self) -> bool:
        """See :class:`Timer`."""

    def open(self) -> None:
        """Start collecting."""

    def close(self) -> None:
        """Stop collecting."""

    def push(self, ident: int) -> None:
        """Device work enqueued from here on belongs to this id."""

    def pop(self) -> None:
        """End of the range that the last push began."""

    def flush_l2(self) -> None:
        """Enqueue an overwrite of twice the L2 cache."""

    def sentinel(self) -> None:
        """Enqueue the smallest kernel there is."""

    def synchronize(self) -> None:
        """Wait for all enqueued work."""

    def drain(self) -> Batch:
        """Hand over what was collected; called after :meth:`synchronize`."""

    def clock(self) -> float:
        """Host seconds, monotonic."""

    def facts(self) -> dict[str, Any]:
        """See :class:`Timer`."""

    def machine(self) -> dict[str, Any]:
        """Clocks, temperature, throttle reasons, other processes now; empty when unknown."""
