# SPDX-License-Identifier: MIT
"""What NVML says about the GPU, read only; nothing about the machine is changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


class Machine:
    """State of one GPU. Without NVML (package ``nvidia-ml-py``, driver) every answer is empty."""

    def __init__(self, uuid: str) -> None:
        self._handle: Any = None
        try:
            import pynvml
        except ImportError:
            return
        self._nvml = pynvml
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
        except pynvml.NVMLError:
            self._handle = None

    def facts(self) -> dict[str, Any]:
        """What does not change during a run: driver, MIG mode, power limit."""
        if self._handle is None:
            return {}
        nvml, gpu = self._nvml, self._handle
        return _present(
            driver=lambda: _text(nvml.nvmlSystemGetDriverVersion()),
            mig=lambda: bool(nvml.nvmlDeviceGetMigMode(gpu)[0]),
            power_limit_w=lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu) / 1000,
        )

    def now(self) -> dict[str, Any]:
        """Clocks in MHz, temperature in C, power in W, throttle reasons as NVML's bit mask, other processes."""
        if self._handle is None:
            return {}
        nvml, gpu = self._nvml, self._handle
        return _present(
            sm_mhz=lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            mem_mhz=lambda: int(nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
            temperature_c=lambda: int(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
            power_w=lambda: nvml.nvmlDeviceGetPowerUsage(gpu) / 1000,
            throttle_mask=lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu)),
            other_processes=lambda: sum(p.pid != os.getpid() for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
        )


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
