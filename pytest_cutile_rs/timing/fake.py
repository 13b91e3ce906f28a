# SPDX-License-Identifier: MIT
"""A simulated device and the collector over it: every rule of the timing layer runs on a CPU.

Sides call :meth:`FakeDevice.launch`; the device keeps its own time, stretched by ``slow`` (a function of the device's
seconds), and loses or spoils records as told.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pytest_cutile_rs.timing.activity import KERNEL
from pytest_cutile_rs.timing.activity import Batch
from pytest_cutile_rs.timing.activity import Work
from pytest_cutile_rs.timing.timer import PairTimer

FLUSH_US = 40.0
GAP_US = 1.0
HOST_US = 10.0


class FakeDevice:
    """A device whose kernels take the time they are told.

    Args:
        slow: factor on kernel times as a function of device seconds (throttling, boost decay); 1 everywhere by default.
        noise: relative standard deviation of one kernel's time.
        drop_first: this many records at the session's start are lost.
        drop_rate: share of records lost at random.
        invalid_rate: share of records that end before they start.
        report_drops: whether the collector admits to the lost records.
        seed: of the noise and the losses.
    """

    def __init__(
        self,
        *,
        slow: Callable[[float], float] | None = None,
        noise: float = 0.0,
        drop_first: int = 0,
        drop_rate: float = 0.0,
        invalid_rate: float = 0.0,
        report_drops: bool = False,
        seed: int = 0,
    ) -> None:
        self._slow = slow or (lambda seconds: 1.0)
        self._noise = noise
        self._drop_first = drop_first
        self._drop_rate = drop_rate
        self._invalid_rate = invalid_rate
        self._report_drops = report_drops
        self._rng = random.Random(seed)
        self._now_ns = 1_000.0
        self._correlation = 0
        self.current: int | None = None
        self.batch = Batch()

    @property
    def seconds(self) -> float:
        """Device and host time; the fake host waits for nothing."""
        return self._now_ns / 1e9

    def wait(self, us: float) -> None:
        """Let time pass without work."""
        self._now_ns += us * 1e3

    def launch(self, name: str, us: float, kind: str = KERNEL, *, seen: bool = True) -> None:
        """Run a kernel (or ``memcpy``, ``memset``) of this many us; unseen work, as of a second thread, has no id."""
        factor = self._slow(self.seconds) * max(0.1, self._rng.gauss(1.0, self._noise))
        start = self._now_ns
        self._now_ns += us * 1e3 * factor + GAP_US * 1e3
        self._correlation += 1
        lost = self._drop_first > 0 or self._rng.random() < self._drop_rate
        if lost:
            self._drop_first = max(0, self._drop_first - 1)
            self.batch.dropped += self._report_drops
            return
        end = start + us * 1e3 * factor
        if self._rng.random() < self._invalid_rate:
            start, end = end, start
        self.batch.work.append(Work(kind, name if kind == KERNEL else "", round(start), round(end), self._correlation))
        if self.current is not None and seen:
            self.batch.external.append((self._correlation, self.current))


class FakeCollector:
    """Collects from a FakeDevice. It may gate, so that the whole road from samples to exit status can be tested."""

    def __init__(self, device: FakeDevice | None = None, *, label: str = "fake", gating: bool = True) -> None:
        self.device = device or FakeDevice()
        self.label = label
        self.gating = gating

    def open(self) -> None:
        """See Collector."""

    def close(self) -> None:
        """See Collector."""

    def push(self, ident: int) -> None:
        """See Collector."""
        self.device.current = ident

    def pop(self) -> None:
        """See Collector."""
        self.device.wait(HOST_US)
        self.device.current = None

    def flush_l2(self) -> None:
        """See Collector."""
        self.device.launch("fake_flush", FLUSH_US)

    def sentinel(self) -> None:
        """See Collector."""
        self.device.launch("fake_sentinel", 1.0)

    def synchronize(self) -> None:
        """See Collector. Costs a little time, so that a side without work still ends its warm-up."""
        self.device.wait(HOST_US)

    def drain(self) -> Batch:
        """See Collector."""
        batch, self.device.batch = self.device.batch, Batch()
        return batch

    def clock(self) -> float:
        """See Collector."""
        return self.device.seconds

    def machine(self) -> dict[str, Any]:
        """See Collector."""
        return {"sm_mhz": round(1980 / self.device._slow(self.device.seconds))}

    def facts(self) -> dict[str, Any]:
        """See Collector."""
        return {"gpu": "fake device"}


class FakeTimer(PairTimer):
    """A timer over a FakeDevice, reachable as ``device``."""

    def __init__(self, device: FakeDevice | None = None, *, label: str = "fake", gating: bool = True) -> None:
        collector = FakeCollector(device, label=label, gating=gating)
        super().__init__(collector)
        self.device = collector.device
