# SPDX-License-Identifier: MIT
"""The perf item's glue over the fake timer; the rules of the gate have tests of their own."""

from __future__ import annotations

import datetime
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.checks import perf
from pytest_cutile_rs.stats import NoiseFloor
from pytest_cutile_rs.suites import suites
from pytest_cutile_rs.timing.fake import FakeDevice
from pytest_cutile_rs.timing.fake import FakeTimer
from pytest_cutile_rs.waivers import Waiver


class Side:
    def __init__(self, device: FakeDevice, us: float, kernel: str) -> None:
        self.device, self.us, self.kernel, self.tileiras = device, us, kernel, "same"

    def call(self, suite, call) -> None:
        self.device.launch(self.kernel, us=self.us)

    def observe(self, suite, call, arch: str) -> dict[str, Any]:
        self.call(suite, call)
        launch = {"kernel": self.kernel, "grid": [4, 1, 1], "hints": {"occupancy": 2}, "constants": {"BM": 64}}
        return {
            "launches": [launch],
            "tuning": [{"configurations": 3, "listed": ["a", "b", "c"], "chosen": "b", "failed": 0, "seconds": 1.5}],
            "tileiras": self.tileiras,
        }

    def facts(self) -> dict[str, Any]:
        return {"tileiras_sha256": self.tileiras}

    def available(self) -> str | None:
        return None


class Ours(Side):
    """Our side, which was tuned too."""

    def kind(self, op: str) -> str:
        return "native"

    def observe(self, suite, case, call, arch: str) -> dict[str, Any]:  # type: ignore[override]
        self.call(suite, call)
        launch = {"kernel": "softmax_row", "grid": [132, 1, 1], "hints": {"occupancy": 2}, "constants": {"BLOCK": 1024}}
        tried = [
            {"config": "rows=2", "predicted_us": 11.0, "us": 10.0, "why": ""},
            {"config": "rows=4", "predicted_us": 9.0, "us": 12.0, "why": ""},
            {"config": "rows=8", "predicted_us": 8.0, "us": 0.0, "why": "spills: 64 bytes of stack for each thread"},
        ]
        found = {"configurations": 40, "compiled": 3, "chosen": "rows=2", "failed": 1, "seconds": 0.5}
        return {"launches": [launch], "tuning": [{**found, "us": 10.0, "default_us": 12.0, "tried": tried}]}


def measure(ours: float, theirs: float, kernel: str = "softmax_row", reason: str = "", **changes: Any):
    """Run the check; ``changes`` are terms, and ``peer`` and ``mine`` functions that spoil a side."""
    gpu = FakeDevice(noise=0.01)
    timer = FakeTimer(gpu)
    suite = suites()["softmax"]
    case = next(case for case in suite.cases if case.id == "f16-64x1024")
    suite = type(suite)()
    suite.torch = lambda case, call: gpu.launch("at::native::softmax", us=30.0)  # type: ignore[method-assign]
    peer = Side(gpu, theirs, "_softmax_kernel")
    changes.pop("peer", lambda side: None)(peer)
    own = Ours(gpu, ours, kernel)
    changes.pop("mine", lambda side: None)(own)
    if reason:
        peer.available = lambda: reason  # type: ignore[method-assign]
    timer.open()
    try:
        terms = perf.Terms(**{"budget_s": 1.0, **changes})
        return perf.check(own, peer, suite, case, Device("cpu", timed=True), timer, terms)
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
    for part in (
        "against 0.95",
        "speedup        0.891, 95 % interval",
        "threshold 0.95 (ci_below; 20 blocks)",
        "ours           14.0",
        "kernels: softmax_row",
        "kernels: _softmax_kernel",
        "chosen: softmax_row grid [132, 1, 1], hints {'occupancy': 2}, constants {'BLOCK': 1024}",
        "chosen: _softmax_kernel grid [4, 1, 1], hints {'occupancy': 2}, constants {'BM': 64}",
        "tuned: b of 3 configurations in 1.5 s",
        "tuned: rows=2 of 40 configurations in 0.5 s, 3 compiled, 2 measured, 12 us by default",
        "10.00 us (predicted 11.00)  rows=2",
        "12.00 us (predicted 9.00)  rows=4",
        "spills: 64 bytes of stack for each thread  rows=8",
        "before         SM 1980 MHz",
        "after          SM 1980 MHz",
        "seed           0; timer fake",
    ):
        assert part in result.details, result.details


def test_another_kernel_than_ours_is_unfair() -> None:
    assert measure(10.0, 12.5, kernel="at::native::softmax").status == "UNFAIR"


def test_both_choices_and_the_tuning_time_are_in_the_record() -> None:
    choices = measure(10.0, 12.5).data["choices"]
    assert choices["rs"]["launches"][0]["constants"] == {"BLOCK": 1024}
    assert [each["why"][:6] for each in choices["rs"]["tuning"][0]["tried"]] == ["", "", "spills"]
    assert choices["rs"]["tuning_s"] == 0.5
    assert choices["py"]["tuning"][0]["listed"] == ["a", "b", "c"]
    assert choices["py"]["tuning_s"] == 1.5
    assert all(choices[side]["first_call_s"] >= 0 for side in ("rs", "py"))


def test_a_peer_that_launched_another_kernel_than_it_asked_for_is_unfair() -> None:
    def lies(side: Side) -> None:
        side.call = lambda suite, call: side.device.launch("some_other_kernel", us=12.5)  # type: ignore[method-assign]

    result = measure(10.0, 12.5, peer=lies)
    assert (result.status, result.data["code"]) == ("UNFAIR", "kernel_mismatch")
    assert "side py should run _softmax_kernel, ran some_other_kernel" in result.reason


def test_a_peer_that_cannot_be_observed_is_unfair() -> None:
    def blind(side: Side) -> None:
        def observe(suite: Any, call: Any, arch: str) -> Any:
            raise TypeError("another cuda-tile")

        side.observe = observe  # type: ignore[method-assign]

    result = measure(10.0, 12.5, peer=blind)
    assert (result.status, result.data["code"]) == ("UNFAIR", "unobserved")
    assert "TypeError: another cuda-tile" in result.reason


@pytest.mark.parametrize(("others", "code"), [(False, "kernel_mismatch"), (True, "unobserved")])
@pytest.mark.parametrize(("spoiled", "side"), [("peer", "py"), ("mine", "rs")])
def test_a_side_that_was_seen_to_launch_nothing_is_unfair(
    monkeypatch: pytest.MonkeyPatch, spoiled: str, side: str, others: bool, code: str
) -> None:
    """Nothing seen is nothing compared, also where torch's kernels may run between those expected."""

    def unseen(side: Side) -> None:
        side.observe = lambda *_: {"launches": [], "tuning": []}  # type: ignore[method-assign]

    monkeypatch.setattr(type(suites()["softmax"]), "calls_torch", lambda self, case: others)
    result = measure(10.0, 12.5, **{spoiled: unseen})
    assert (result.status, result.data["code"]) == ("UNFAIR", code)
    if others:
        assert f"what side {side} launched is not known: its first call was watched" in result.reason


def test_two_assemblers_are_unfair_and_both_are_recorded() -> None:
    result = measure(10.0, 12.5, peer=lambda side: setattr(side, "tileiras", "other"))
    assert (result.status, result.data["code"]) == ("UNFAIR", "tileiras_differs")
    assert result.data["tileiras"] == {"rs": "same", "py": "other"}
    assert measure(10.0, 12.5, peer=lambda side: setattr(side, "tileiras", "")).status == "PASS"


def test_a_machine_too_noisy_for_the_threshold_is_noisy() -> None:
    result = measure(10.0, 12.5, noise_floor=NoiseFloor(0.08))
    assert (result.status, result.data["code"]) == ("NOISY", "noise_floor")
    assert "noise floor    8.00%" in result.details
    assert measure(10.0, 12.5, noise_floor=NoiseFloor(0.01)).data["noise_floor"] == 0.01


def waiver(threshold: float | None) -> tuple[Waiver, ...]:
    return (Waiver("softmax", "f16-64*", threshold, "tuned next week", datetime.date(2030, 1, 1)),)


@pytest.mark.parametrize(
    ("theirs", "threshold", "status"),
    [(12.5, None, "WAIVED"), (12.5, 0.85, "WAIVED"), (12.5, 0.92, "FAIL"), (20.0, None, "PASS")],
)
def test_a_waiver_covers_what_it_says(theirs: float, threshold: float | None, status: str) -> None:
    result = measure(14.0, theirs, waivers=waiver(threshold))
    assert result.status == status, result.reason
    assert ("waived" in result.data) == (status == "WAIVED")
    if status == "WAIVED":
        assert result.data["waived"]["status"] == "FAIL"
        assert "FAIL speedup 0.89" in result.reason
        assert "until 2030-01-01: tuned next week" in result.reason
    if status == "FAIL":
        assert "not even the waived 0.92 is reached" in result.reason


def test_no_waiver_covers_an_unfair_case() -> None:
    assert measure(10.0, 12.5, kernel="at::native::softmax", waivers=waiver(None)).status == "UNFAIR"


def test_the_published_protocol_stands_beside_and_decides_nothing() -> None:
    published = measure(14.0, 12.5, protocol="best-of-4")
    assert published.status == "FAIL"
    figures = published.data["protocol"]
    assert figures["name"] == "best-of-4"
    assert {side: len(passes) for side, passes in figures["passes"].items()} == {"py": 4, "rs": 4}
    assert figures["us"]["rs"] == min(figures["passes"]["rs"]) == pytest.approx(14.0, rel=0.02)
    assert figures["ratio"] == pytest.approx(figures["us"]["py"] / figures["us"]["rs"])


def test_without_the_peer_it_does_not_run() -> None:
    assert measure(10.0, 12.5, reason="TileGym is not installed").status == "NOT-RUN"


def test_a_gpu_without_a_clock_is_no_data() -> None:
    case = suites()["softmax"].cases[0]
    result = perf.unavailable(case, "cupti_missing", "libcupti is not there")
    assert (result.status, result.verdict) == ("NO-DATA", "VERDICT: FAIL NO-DATA libcupti is not there")


@pytest.mark.parametrize("kind", ["cupti", "event"])
def test_the_clock_is_the_option_s_and_may_gate(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    from pytest_cutile_rs import timing
    from pytest_cutile_rs.measuring import Measuring

    asked: list[Any] = []

    def make_timer(kind: str, **more: Any) -> FakeTimer:
        asked.append((kind, more))
        return FakeTimer()

    monkeypatch.setattr(timing, "make_timer", make_timer)
    config = SimpleNamespace(hook=SimpleNamespace(pytest_cutile_rs_timer=lambda config: None))
    session: Any = SimpleNamespace(config=config, options=SimpleNamespace(timer=kind))
    measuring = Measuring(session)
    assert measuring.timer is measuring.timer
    assert asked == [(kind, {"event_gates": True})]
    with pytest.raises(RuntimeError, match="open already"):
        measuring.timer.open()
    measuring.close()


def test_gradients_are_computed_on_the_timed_thread():
    """The timer tells kernels apart by the thread that launches them."""
    import torch

    with perf.no_grad():
        assert not torch.is_grad_enabled()
        assert not torch._C._is_multithreading_enabled()
    assert torch._C._is_multithreading_enabled()
