# SPDX-License-Identifier: MIT
"""Device-time measurement behind one small interface."""

from __future__ import annotations

from pathlib import Path

from pytest_cutile_rs.timing.base import Collector
from pytest_cutile_rs.timing.base import Plan
from pytest_cutile_rs.timing.base import Record
from pytest_cutile_rs.timing.base import Side
from pytest_cutile_rs.timing.base import Timer
from pytest_cutile_rs.timing.base import TimingUnavailable
from pytest_cutile_rs.timing.timer import PairTimer

__all__ = ["Collector", "PairTimer", "Plan", "Record", "Side", "Timer", "TimingUnavailable", "make_timer"]


def make_timer(kind: str = "cupti", prefix: Path | None = None, *, event_gates: bool = False) -> PairTimer:
    """A timer that is not open yet: ``cupti``, ``event`` (gates only with ``event_gates``) or ``fake``.

    ``prefix`` is where cupti-python and libcupti are, by default the toolchain's own prefix. Raises ValueError for
    another kind.
    """
    if kind == "cupti":
        from pytest_cutile_rs.timing.cupti import CuptiCollector

        return PairTimer(CuptiCollector(prefix))
    if kind == "event":
        from pytest_cutile_rs.timing.event import EventCollector

        return PairTimer(EventCollector(gating=event_gates))
    if kind == "fake":
        from pytest_cutile_rs.timing.fake import FakeTimer

        return FakeTimer()
    raise ValueError(f"unknown timer {kind!r}; choose cupti, event or fake")
