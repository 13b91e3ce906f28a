# SPDX-License-Identifier: MIT
"""NVML's answers, from a stand-in for its Python package."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cutile_rs.timing.machine import Machine
from pytest_cutile_rs.timing.machine import reasons


class NVMLError(Exception):
    pass


def nvml(pids: list[int], **changes: Any) -> SimpleNamespace:
    known: dict[str, Any] = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": lambda uuid: uuid,
        "nvmlDeviceGetClockInfo": lambda gpu, kind: {1: 1755, 2: 3201}[kind],
        "nvmlDeviceGetMaxClockInfo": lambda gpu, kind: 1980,
        "nvmlDeviceGetTemperature": lambda gpu, sensor: 41,
        "nvmlDeviceGetPowerUsage": lambda gpu: 350_500,
        "nvmlDeviceGetEnforcedPowerLimit": lambda gpu: 700_000,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda gpu: 0x24,
        "nvmlDeviceGetMigMode": lambda gpu: (0, 0),
        "nvmlSystemGetDriverVersion": lambda: b"580.159.04",
        "nvmlDeviceGetComputeRunningProcesses": lambda gpu: [SimpleNamespace(pid=pid) for pid in pids],
    }
    return SimpleNamespace(**(known | changes))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    def make(pids: list[int], uuid: str = "abc", **changes: Any) -> Machine:
        monkeypatch.setitem(sys.modules, "pynvml", nvml(pids, **changes))
        return Machine(uuid)

    return make


def test_state_and_facts(machine: Any) -> None:
    found = machine([os.getpid(), 11, 12])
    assert found.now() == {
        "sm_mhz": 1755,
        "mem_mhz": 3201,
        "temperature_c": 41,
        "power_w": 350.5,
        "throttle_mask": 0x24,
        "throttle": ["software_power_cap", "software_thermal"],
        "mig": False,
        "other_processes": 2,
    }
    assert found.facts() == {"driver": "580.159.04", "mig": False, "power_limit_w": 700.0, "max_sm_mhz": 1980}


@pytest.mark.parametrize(("pids", "others"), [([], 0), ([7], 0), ([7, 8], 1)])
def test_in_a_container_ours_is_one_of_the_unknown_numbers(machine: Any, pids: list[int], others: int) -> None:
    assert machine(pids).now()["other_processes"] == others


def test_what_a_gpu_does_not_support_is_left_out(machine: Any) -> None:
    def no(*_: Any) -> Any:
        raise NVMLError("Not Supported")

    found = machine([], nvmlDeviceGetMigMode=no, nvmlDeviceGetCurrentClocksThrottleReasons=no)
    assert {"mig", "throttle_mask", "throttle"}.isdisjoint(found.now())
    assert found.now()["sm_mhz"] == 1755
    assert "mig" not in found.facts()


def test_the_uuid_is_the_driver_s(machine: Any) -> None:
    assert [machine([], uuid)._handle for uuid in ("abc", "GPU-abc", "MIG-abc")] == ["GPU-abc", "GPU-abc", "MIG-abc"]


def test_without_a_driver_every_answer_is_empty(machine: Any) -> None:
    def no() -> None:
        raise NVMLError("Driver Not Loaded")

    assert (machine([], nvmlInit=no).now(), machine([], nvmlInit=no).facts()) == ({}, {})


def test_words_of_a_mask() -> None:
    assert reasons(0) == []
    assert reasons(0x1 | 0x40) == ["idle", "hardware_thermal"]
    assert reasons(0x400 | 0x8) == ["hardware_slowdown", "0x400"]
