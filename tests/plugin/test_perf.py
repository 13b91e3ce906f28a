# SPDX-License-Identifier: MIT
"""The perf item's glue over the fake timer; the rules of the gate have tests of their own."""

from __future__ import annotations

import pytest

from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.checks import perf
from pytest_cutile_rs.suites import suites
from pytest_cutile_rs.timing.fake import FakeDevice
from pytest_cutile_rs.timing.fake import FakeTimer


class Side:
    def __init__(self, device: FakeDevice, us: float, kernel: str) -> None:
        self.device, self.us, self.kernel = device, us, kernel

    def call(self, suite, call) -> None:
        self.device.launch(self.kernel, us=self.us)

    def available(self) -> str | None:
        return None


def measure(ours: float, theirs: float, kernel: str = "softmax_row", reason: str = ""):
    gpu = FakeDevice(noise=0.01)
    timer = FakeTimer(gpu)
    suite = suites()["softmax"]
    case = next(case for case in suite.cases if case.id == "f16-64x1024")
    suite = type(suite)()
    suite.torch = lambda case, call: gpu.launch("at::native::softmax", us=30.0)  # type: ignore[method-assign]
    peer = Side(gpu, theirs, "_softmax_kernel")
    if reason:
        peer.available = lambda: reason  # type: ignore[method-assign]
    timer.open()
    try:
        return perf.check(
            Side(gpu, ours, kernel),
            peer,
            suite,
            case,
            Device("cpu", timed=True),
            timer,
            seed=0,
            threshold=0.95,
            budget_s=1.0,
            expected=["softmax_row"],
        )
    finally:
        timer.close()


def test_a_faster_kernel_passes_with_all_figures() -> None:
    result = measure(10.0, 12.5)
    assert result.status == "PASS", result.reason
    assert result.data["ratio"] == pytest.approx(1.25, rel=0.02)
    assert result.data["us"]["rs"] == pytest.approx(10.0, rel=0.02)
    assert result.data["us"]["torch"] == pytest.approx(30.0, rel=0.02)
    assert result.data["gbytes_per_s"] == pytest.approx(2 * 2 * 64 * 1024 / 10.0 / 1e3, rel=0.02)
    assert result.data["record"]["kernels"]["py"] == ["_softmax_kernel"]


def test_a_slower_kernel_fails_with_the_facts_in_the_message() -> None:
    result = measure(14.0, 12.5)
    assert result.status == "FAIL"
    for part in ("against 0.95", "kernels: ", "softmax_row", "seed: 0"):
        assert part in result.details


def test_another_kernel_than_ours_is_unfair() -> None:
    assert measure(10.0, 12.5, kernel="at::native::softmax").status == "UNFAIR"


def test_without_the_peer_it_does_not_run() -> None:
    assert measure(10.0, 12.5, reason="TileGym is not installed").status == "NOT-RUN"


def test_a_gpu_without_a_clock_is_no_data() -> None:
    case = suites()["softmax"].cases[0]
    result = perf.unavailable(case, "cupti_missing", "libcupti is not there")
    assert (result.status, result.verdict) == ("NO-DATA", "VERDICT: FAIL NO-DATA libcupti is not there")
