# SPDX-License-Identifier: MIT
"""Each verdict and reason, and how often the gate is wrong."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pytest_cutile_rs import gate
from pytest_cutile_rs import stats
from pytest_cutile_rs.timing import Record


def record(py: Sequence[float] | float, rs: float = 20.0, **changes: object) -> Record:
    times = [py] * 40 if isinstance(py, float) else list(py)
    known: dict[str, object] = {
        "blocks": {"rs": [rs] * len(times), "py": times},
        "kernels": {"rs": ("rs_kernel",), "py": ("_Z9py_kernelPf",)},
        "attempted": len(times),
        "sides": ("rs", "py"),
        "timer": "cupti",
        "gating": True,
        "seed": 0,
    }
    return Record("case", **(known | changes))  # type: ignore[arg-type]


def spread(center: float, width: float = 0.05) -> list[float]:
    return [20 * r for r in np.linspace(center - width, center + width, 40)]


@pytest.mark.parametrize(
    ("given", "verdict", "reason"),
    [
        (record(30.0), gate.PASS, "ci_above"),
        (record(18.0), gate.FAIL, "ci_below"),
        (record(spread(0.95)), gate.AMBIGUOUS, "ci_straddles"),
        (record(2.0, 2.4), gate.PASS, "below_floor"),
        (record(2.0, 2.6), gate.FAIL, "ci_below"),
        (record(20.0, error="no_kernels:py", detail="none", blocks={}), gate.NO_DATA, "no_kernels"),
        (record(20.0, error="side_error:rs", detail="boom", blocks={}), gate.NO_DATA, "side_error"),
        (record(20.0, error="device_error", detail="boom"), gate.NO_DATA, "device_error"),
        (record(20.0, sides=("rs",)), gate.NO_DATA, "side_missing"),
        (record(20.0, gating=False, timer="event"), gate.NO_DATA, "not_gating"),
        (record([20.0] * 9), gate.NO_DATA, "too_few_blocks"),
        (record(20.0, kernels={"rs": ("memcpy", "k"), "py": ("k",)}), gate.UNFAIR, "stray_copy"),
        (record(20.0, kernels={"rs": ("k",), "py": ("k", "memset")}), gate.UNFAIR, "stray_copy"),
        (record(20.0, kernels={"rs": ("k",), "py": ("_ZN2at6native4fillE",)}), gate.UNFAIR, "foreign_kernel"),
        (record(20.0, kernels={"rs": ("k",), "py": ("(anonymous namespace)::f<1>",)}), gate.UNFAIR, "foreign_kernel"),
        (record(20.0, kernels={"rs": ("nvjet_hsh_128x256",), "py": ("k",)}), gate.UNFAIR, "foreign_kernel"),
        (record(20.0, attempted=43, discarded={"missing": 3}), gate.NOISY, "discards"),
        (record(20.0, attempted=43, discarded={"missing": 3}, dropped=9), gate.NOISY, "dropped_records"),
        (record(20.0, attempted=42, discarded={"missing": 2}), gate.PASS, "ci_above"),
        (record(20.0, invalid=5), gate.NOISY, "invalid_records"),
    ],
)
def test_each_verdict(given: Record, verdict: str, reason: str) -> None:
    case = gate.judge(given)
    assert (case.verdict, case.reason) == (verdict, reason)
    assert case.text
    json.dumps(case.to_json(), allow_nan=False)


def test_the_event_timer_gates_only_when_asked() -> None:
    event = record(30.0, gating=False, timer="event")
    assert gate.judge(event, allow_non_gating=True).verdict == gate.PASS
    assert gate.judge(event).ratio == pytest.approx(1.5)


def test_expected_kernels_are_compared_in_order_and_by_containment() -> None:
    names = {"rs": ["rs_kernel"], "py": ["py_kernel"]}
    assert gate.judge(record(30.0), expected=names).verdict == gate.PASS
    for wrong in (["other"], ["rs_kernel", "rs_kernel"], []):
        case = gate.judge(record(30.0), expected={"rs": wrong})
        assert (case.verdict, case.reason) == (gate.UNFAIR, "kernel_mismatch")
        assert "ran rs_kernel" in case.text


def test_one_assembler_for_both() -> None:
    assert gate.judge(record(30.0), tileiras={"rs": "a", "py": "a"}).verdict == gate.PASS
    assert gate.judge(record(30.0), tileiras={"rs": "a", "py": "b"}).reason == "tileiras_differs"


def test_a_machine_that_cannot_resolve_the_threshold_decides_nothing() -> None:
    case = gate.judge(record(30.0), noise_floor=stats.NoiseFloor(0.06))
    assert (case.verdict, case.reason) == (gate.NOISY, "noise_floor")
    assert gate.judge(record(30.0), noise_floor=stats.NoiseFloor(0.01)).verdict == gate.PASS


def test_the_text_carries_ratio_interval_threshold_and_times() -> None:
    case = gate.judge(record(18.0))
    assert case.text == "speedup 0.900 [0.900, 0.900] against 0.95; peer 18.00 us, subject 20.00 us, 40 blocks"


def test_the_threshold_is_inclusive() -> None:
    assert gate.judge(record(19.0)).verdict == gate.PASS
    assert gate.judge(record(19.0), threshold=0.951).verdict == gate.FAIL


def test_decided_wants_a_verdict_and_a_narrow_interval() -> None:
    assert gate.decided()(record(30.0))
    assert not gate.decided()(record(spread(0.95)))
    assert not gate.decided()(record(spread(1.2, 0.2)))
    assert gate.decided(half_width=0.5)(record(spread(1.2, 0.2)))
    assert gate.decided()(record(2.0, 2.1))
    assert gate.decided()(record([2.0 * r for r in np.linspace(0.95, 1.05, 40)], 2.0))


def cases(*ratios: float) -> list[gate.CaseVerdict]:
    return [gate.judge(record(20 * r)) for r in ratios]


def test_op_passes_when_every_case_does() -> None:
    op = gate.judge_op("softmax", cases(1.2, 1.0, 0.96))
    assert (op.verdict, op.reason) == (gate.PASS, "geomean_above")
    assert op.geomean == pytest.approx((1.2 * 0.96) ** (1 / 3))
    assert op.counts == {"PASS": 3}


def test_op_is_as_bad_as_its_worst_case() -> None:
    assert gate.judge_op("softmax", cases(1.5, 0.9)).verdict == gate.FAIL
    broken = gate.no_data("timer_unavailable", "no CUPTI", "case2")
    op = gate.judge_op("softmax", [*cases(1.5), broken])
    assert (op.verdict, op.worst) == (gate.NO_DATA, "case2")
    assert gate.judge_op("softmax", [broken]).verdict == gate.NO_DATA
    assert gate.judge_op("softmax", []).reason == "no_cases"


def test_op_counts_differences_below_the_floor_as_one() -> None:
    floored = gate.judge(record(2.0, 2.4))
    assert floored.counted == 1.0
    assert gate.judge_op("softmax", [floored, *cases(1.0)]).geomean == 1.0


def test_op_mean_has_its_own_threshold() -> None:
    op = gate.judge_op("softmax", cases(0.96, 0.97), threshold=1.0)
    assert (op.verdict, op.reason) == (gate.FAIL, "geomean_below")


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    path = Path(__file__).parents[1] / "benchmarks" / "gate_simulation.py"
    spec = importlib.util.spec_from_file_location("gate_simulation", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["gate_simulation"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["steady", "drift", "throttle", "boost", "outliers", "noisy", "all"])
def test_false_alarms_and_silent_passes_are_rare(simulation: ModuleType, name: str) -> None:
    scenario = next(s for s in simulation.SCENARIOS if s.name == name)
    equal, slow = simulation.rates(scenario, 1.0, 1000), simulation.rates(scenario, 0.9, 1000)
    assert equal[gate.FAIL] < 0.01
    assert equal[gate.PASS] > 0.99
    assert slow[gate.PASS] < 0.01
    assert slow[gate.FAIL] > 0.99


def test_what_torch_does_of_an_op_may_run_between_its_kernels():
    kernels = {"rs": ("memset", "nvjet_hsh", "a_1", "b_2"), "py": ("a_3", "at::native::sum", "b_4", "memcpy")}
    expected = {"rs": ["a", "b"], "py": ["a", "b"]}
    one = record(20.0, kernels=kernels)
    assert gate.judge(one, expected=expected).reason == "stray_copy"
    assert gate.judge(one, expected=expected, others=True).verdict == gate.PASS
    for side, names in (("rs", ("b_2", "a_1")), ("py", ("a_3", "memcpy")), ("rs", ())):
        found = gate.judge(record(20.0, kernels={**kernels, side: names}), expected=expected, others=True)
        assert (found.verdict, found.reason) == (gate.UNFAIR, "kernel_mismatch")


def test_one_wrapper_may_run_the_same_of_torch_on_both_sides_and_nothing_else():
    kernels = {"rs": ("memcpy", "soft_1", "at::native::sum"), "py": ("memcpy", "soft_3", "at::native::sum")}
    expected = {"rs": ["soft"], "py": ["soft"]}
    one = record(20.0, kernels=kernels)
    assert gate.judge(one, expected=expected).reason == "stray_copy"
    assert gate.judge(one, expected=expected, one_wrapper=True).verdict == gate.PASS
    for rs in (("memcpy", "soft_1"), ("memcpy", "memcpy", "soft_1", "at::native::sum"), ("memcpy", "at::native::sum")):
        found = gate.judge(record(20.0, kernels={**kernels, "rs": rs}), expected=expected, one_wrapper=True)
        assert found.verdict == gate.UNFAIR
