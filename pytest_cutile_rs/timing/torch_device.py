# SPDX-License-Identifier: MIT
"""What the clocks on a real GPU share: the device, the L2 flush, the sentinel kernel and the machine's state."""

from __future__ import annotations

import time
from typing import Any

from pytest_cutile_rs.timing.base import TimingUnavailable
from pytest_cutile_rs.timing.flush import L2Flush
from pytest_cutile_rs.timing.machine import Machine


class TorchDevice:
    """torch's current CUDA device and stream; raises TimingUnavailable where torch sees none."""

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise TimingUnavailable("no_gpu", "torch sees no CUDA device, so there is no device time to measure.")
        self._torch = torch
        self._properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self._machine = Machine(str(getattr(self._properties, "uuid", "")))
        self._tiny = torch.zeros(1, device="cuda")
        self.flush_l2 = L2Flush()
        torch.cuda.synchronize()

    def sentinel(self) -> None:
        """Enqueue the smallest kernel."""
        self._tiny.fill_(1)

    def synchronize(self) -> None:
        """Wait for the device."""
        self._torch.cuda.synchronize()

    def clock(self) -> float:
        """Host seconds."""
        return time.perf_counter()

    def machine(self) -> dict[str, Any]:
        """See Machine.now."""
        return self._machine.now()

    def facts(self) -> dict[str, Any]:
        """Device and versions."""
        torch = self._torch
        return {
            "gpu": self._properties.name,
            "uuid": str(getattr(self._properties, "uuid", "")),
            "sm_count": self._properties.multi_processor_count,
            "capability": f"{self._properties.major}.{self._properties.minor}",
            "l2_bytes": self.flush_l2.l2_bytes,
            "torch": torch.__version__,
            "torch_cuda": torch.version.cuda,
        } | self._machine.facts()
