# SPDX-License-Identifier: MIT
"""Device time of a call by CUDA events, with a cold L2; never a profiler, which another one would forbid.

Everything is enqueued before the overwrite of the L2 ends, so the host's time is not in the interval. The launch gap
is, the same for all candidates: `Stopwatch.floor` measures it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from .measure import Failed

OVERWRITES = 3
"""Times the scratch is overwritten before a call: one evicts the L2, all together give the host 100 us to enqueue."""
DEADLINE_S = 20.0
"""A call that has not ended after this is taken to hang."""


class Stopwatch:
    """Times calls on the current stream of one device.

    Args:
        device: CUDA index.
        cuda: what answers for `torch.cuda`.
        scratch: a tensor of twice the L2, overwritten before each call; made on first use if absent.
    """

    def __init__(self, device: int, *, cuda: Any = None, scratch: Any = None, deadline_s: float = DEADLINE_S) -> None:
        import torch

        self._cuda = cuda or torch.cuda
        self._device = device
        self._scratch = scratch
        self._deadline_s = deadline_s

    def sample(self, call: Callable[[], Any], before: Callable[[], Any] | None = None) -> float:
        """Return microseconds of one call; `before` runs outside of the interval (restoring what the call overwrites).

        Raises:
            Failed: it has not ended within the deadline. The device is then lost to this process.
        """
        if before is not None:
            before()
        self._flush()
        start, end = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        self._wait(end)
        return float(start.elapsed_time(end)) * 1e3

    def floor(self, samples: int = 25) -> float:
        """Return the median microseconds of a call that launches the least there is: what every sample has on top."""
        self._flush()
        least = self._scratch[:1]
        return statistics.median(self.sample(least.zero_) for _ in range(samples))

    def run(self, call: Callable[[], Any]) -> None:
        """Call and wait for the end; raises Failed at the deadline."""
        call()
        end = self._cuda.Event(enable_timing=True)
        end.record()
        self._wait(end)

    def sound(self) -> bool:
        """Whether the device still works: after a fault every call of its process fails."""
        try:
            self._cuda.synchronize(self._device)
        except RuntimeError:
            return False
        return True

    def _wait(self, event: Any) -> None:
        limit = time.monotonic() + self._deadline_s
        pause = 0.0
        while not event.query():
            if time.monotonic() > limit:
                raise Failed(f"did not end within {self._deadline_s:g} s on the GPU")
            time.sleep(pause)
            pause = min(pause + 1e-5, 1e-3)

    def _flush(self) -> None:
        if self._scratch is None:
            import torch

            size = 2 * self._cuda.get_device_properties(self._device).L2_cache_size
            self._scratch = torch.empty(size, dtype=torch.int8, device=f"cuda:{self._device}")
        for _ in range(OVERWRITES):
            self._scratch.zero_()
