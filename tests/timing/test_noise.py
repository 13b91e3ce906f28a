# SPDX-License-Identifier: MIT
"""The noise floor: what is measured against itself, and what becomes of pairs that cannot be measured."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_cutile_rs import noise
from pytest_cutile_rs import stats
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.timing import Plan
from pytest_cutile_rs.timing.fake import FakeDevice
from pytest_cutile_rs.timing.fake import FakeTimer

PLAN = Plan(warm_s=0.001)


def opened(**device: Any) -> FakeTimer:
    timer = FakeTimer(FakeDevice(**device))
    timer.open()
    return timer


def test_the_floor_is_that_of_the_first_cases_and_inputs_are_made_one_at_a_time() -> None:
    timer = opened(noise=0.02, seed=4)
    made: list[int] = []

    def pairs() -> Iterator[tuple[str, Callable[[], Any]]]:
        for number in range(5):

            def make(number: int = number) -> Any:
                made.append(number)
                return lambda: timer.device.launch("k", 60.0)

            yield f"case{number}", make

    floor = noise.measure(timer, pairs(), 3, PLAN)
    assert [name for name, _ in floor.cases] == ["case0", "case1", "case2"]
    assert made == [0, 1, 2]
    assert 0 < floor.relative < 0.02
    assert floor.times_us["case0"] == pytest.approx(60.0, rel=0.02)
    written = noise.to_json(floor, "GPU-1")
    assert (written["gpu"], len(written["cases"])) == ("GPU-1", 3)


def test_a_pair_that_fails_gives_way_to_the_next() -> None:
    timer = opened()

    def broken() -> Any:
        raise MemoryError("too large")

    good = lambda: lambda: timer.device.launch("k", 60.0)  # noqa: E731
    floor = noise.measure(timer, [("a", broken), ("b", lambda: lambda: None), ("c", good)], 1, PLAN)
    assert [name for name, _ in floor.cases] == ["c"]
    with pytest.raises(noise.NoNoiseFloor, match=r"measured nothing: a: MemoryError: too large; b: no_kernels"):
        noise.measure(timer, [("a", broken), ("b", lambda: lambda: None)], 2, PLAN)
    with pytest.raises(noise.NoNoiseFloor, match="no case given"):
        noise.measure(timer, [], 2, PLAN)


def test_it_gives_up_after_a_few_failures() -> None:
    tried: list[int] = []

    def broken() -> Any:
        tried.append(1)
        raise ValueError("no")

    with pytest.raises(noise.NoNoiseFloor):
        noise.measure(opened(), [(str(n), broken) for n in range(50)], 3, PLAN)
    assert len(tried) == noise.SPARE + 1


def test_long_kernels_are_chosen_first_and_spread() -> None:
    suite: Any = SimpleNamespace(bytes_moved=lambda case: case.shape[0])
    cases = [(suite, Case("op", f"c{size}", "f16", (size,))) for size in (1, 2, 3, 4, 5, 6, 7, 8)]
    assert [case.shape[0] for _, case in noise.candidates(cases, 3)] == [8, 6, 5, 7, 4, 3, 2, 1]
    assert [case.shape[0] for _, case in noise.candidates(cases[:1], 3)] == [1]
    assert noise.candidates([], 3) == []


def test_a_distance_below_the_absolute_floor_is_none() -> None:
    apart = [("short", np.full(40, 1.08)), ("long", np.full(40, 1.01))]
    assert stats.noise_floor(apart).counted == pytest.approx(0.08)
    quick = stats.noise_floor(apart, times_us={"short": 5.0, "long": 100.0})
    assert (quick.relative, quick.counted) == (pytest.approx(0.08), pytest.approx(0.01))
    assert stats.noise_floor(apart, times_us={"short": 50.0, "long": 100.0}).counted == pytest.approx(0.08)


def test_a_threshold_near_one_asks_for_two_percent() -> None:
    assert stats.NoiseFloor(0.015).resolves(1.0)
    assert not stats.NoiseFloor(0.025).resolves(1.0)
    assert stats.NoiseFloor(0.04).resolves(0.95)
    assert not stats.NoiseFloor(0.051).resolves(0.95)
    assert not stats.NoiseFloor(0.05).resolves(1.04)
