# SPDX-License-Identifier: MIT
"""What NVML says about the GPU, read only; nothing about the machine is changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

# NVML's clock event reasons, formerly throttle reasons.
REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "software_power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "hardware_power_brake",
    0x100: "display_clocks",
}


class Machine:
    """State of one GPU. Without NVML (package ``nvidia-ml-py``, driver) every answer is empty.

    Args:
        uuid: as torch gives it; a MIG instance's begins with ``MIG-``.
    """

    def __init__(self, uuid: str) -> None:
        self._handle: Any = None
        try:
            import pynvml
        except ImportError:
            return
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid[:4] in ("GPU-", "MIG-") else f"GPU-{uuid}")
        except pynvml.NVMLError:
            self._handle = None

    def facts(self) -> dict[str, Any]:
        """What does not change during a run: driver, MIG mode, power limit in W, highest SM clock in MHz."""
        if self._handle is None:
            return {}
        nvml, gpu = self._nvml, self._handle
        return _present(
            driver=lambda: _text(nvml.nvmlSystemGetDriverVersion()),
            mig=lambda: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
            power_limit_w=lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
            max_sm_mhz=lambda: int(nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        )

    def now(self) -> dict[str, Any]:
        """Clocks in MHz, temperature in C, power in W, throttle reasons, MIG mode, other processes on this GPU.

        ``throttle_mask`` is NVML's bit mask and ``throttle`` its words. ``other_processes`` counts the compute
        processes besides this one; in a container NVML numbers them as the host does, so that ours is not found by
        its number: then one of them is taken to be ours.
        """
        if self._handle is None:
            return {}
        nvml, gpu = self._nvml, self._handle
        found = _present(
            sm_mhz=lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            mem_mhz=lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
            temperature_c=lambda: int(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
            power_w=lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
            throttle_mask=lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
            mig=lambda: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
            other_processes=lambda: _others([int(p.pid) for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)]),
        )
        if "throttle_mask" in found:
            found["throttle"] = reasons(found["throttle_mask"])
        return found


def reasons(mask: int) -> list[str]:
    """The words of a bit mask; bits that are not known here as numbers."""
    known = [word for bit, word in REASONS.items() if mask & bit]
    rest = mask & ~sum(REASONS)
    return known + ([hex(rest)] if rest else [])


def _others(pids: list[int]) -> int:
    mine = pids.count(os.getpid()) or min(1, len(pids))
    return len(pids) - mine


def _present(**queries: Callable[[], Any]) -> dict[str, Any]:
    """The answers of the queries that this driver or this kind of GPU supports."""
    answers = {}
    for name, query in queries.items():
        try:
            answers[name] = query()
        except Exception:  # NVML raises another type for each state; a missing fact is left out
            continue
    return answers


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
