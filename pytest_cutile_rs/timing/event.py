# SPDX-License-Identifier: MIT
"""Device time from CUDA events: works without CUPTI, times the gaps too, and so gates only when asked to."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.timing.activity import KERNEL
from pytest_cutile_rs.timing.activity import Batch
from pytest_cutile_rs.timing.activity import Work
from pytest_cutile_rs.timing.torch_device import TorchDevice

# What an interval is called in the record: events see no kernels, so stray copies and fallbacks stay hidden.
INTERVAL = "event-interval"


class EventCollector:
    """An event before and one after each call, on torch's current stream."""

    label = "event"

    def __init__(self, *, gating: bool = False) -> None:
        self.gating = gating
        self._pending: list[tuple[int, Any, Any]] = []
        self._current: tuple[int, Any] | None = None
        self._correlation = 0

    def open(self) -> None:
        """See Collector."""
        self._gpu = TorchDevice()
        self._origin = self._now()

    @staticmethod
    def _now() -> Any:
        import torch

        event: Any = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def close(self) -> None:
        """See Collector."""
        self._pending.clear()

    def push(self, ident: int) -> None:
        """See Collector."""
        self._current = (ident, self._now())

    def pop(self) -> None:
        """See Collector."""
        if self._current is None:
            raise RuntimeError("pop() without push()")
        self._pending.append((*self._current, self._now()))
        self._current = None

    def drain(self) -> Batch:
        """See Collector."""
        batch = Batch()
        for ident, begin, end in self._pending:
            self._correlation += 1
            start = round(self._origin.elapsed_time(begin) * 1e6) + 1
            stop = start + round(begin.elapsed_time(end) * 1e6)
            batch.work.append(Work(KERNEL, INTERVAL, start, stop, self._correlation))
            batch.external.append((self._correlation, ident))
        self._pending.clear()
        return batch

    def flush_l2(self) -> None:
        """See Collector."""
        self._gpu.flush_l2()

    def sentinel(self) -> None:
        """See Collector."""
        self._gpu.sentinel()

    def synchronize(self) -> None:
        """See Collector."""
        self._gpu.synchronize()

    def clock(self) -> float:
        """See Collector."""
        return self._gpu.clock()

    def machine(self) -> dict[str, Any]:
        """See Collector."""
        return self._gpu.machine()

    def facts(self) -> dict[str, Any]:
        """See Collector."""
        return self._gpu.facts()
