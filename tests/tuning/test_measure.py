# SPDX-License-Identifier: MIT
"""Successive halving over a fake: who wins, who drops out and why, how often each is run."""

from __future__ import annotations

import itertools
import random

import pytest
from tuning_space import Runner

from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.measure import Terms
from tilegym_rs_backend.tuning.measure import halve


def ticking(step=0.01):
    count = itertools.count()
    return lambda: next(count) * step


def run(us, noise=lambda count: 1.0, **terms):
    runner = Runner(us, noise)
    return halve(len(us), runner, Terms(**terms), clock=ticking()), runner


def test_the_fastest_wins_and_the_slow_are_run_least():
    found, runner = run([20.0, 10.0, 15.0, 40.0, 30.0, 12.0, 50.0, 60.0], warm_s=0.0)
    assert found.best == 1
    counts = [runner.samples.count(index) for index in range(8)]
    assert counts[1] == 3 + 5 + 9  # one is left after three rounds
    assert counts[7] == counts[6] == counts[3] == counts[4] == 3
    assert counts[2] == 3 + 5
    assert found.us[1] == 10.0
    assert found.us[7] == 60.0


def test_candidates_take_turns():
    _, runner = run([10.0, 11.0, 12.0], warm_s=0.0)
    assert runner.samples[:9] == [0, 1, 2] * 3


@pytest.mark.parametrize("seed", range(20))
def test_noise_and_a_drifting_clock_do_not_change_the_winner(seed):
    chance = random.Random(seed)
    us = [20.0, 18.0, 17.5, 17.0, 16.0, 25.0, 30.0, 22.0]

    def noise(count):
        return (1 + 0.003 * count) * chance.lognormvariate(0.0, 0.02)

    found, _ = run(us, noise, warm_s=0.0)
    assert found.best == 4


def test_a_candidate_that_cannot_be_prepared_is_dropped_with_its_reason_and_not_run():
    found, runner = run([20.0, "out of shared memory", 10.0])
    assert found.best == 2
    assert found.failed == {1: "out of shared memory"}
    assert 1 not in runner.samples
    assert 1 not in found.us


def test_a_candidate_that_fails_later_is_dropped_even_if_it_was_the_fastest():
    def breaks(count):
        if count > 4:
            raise Failed("did not answer within 60 s and was ended")
        return 5.0

    found, runner = run([20.0, breaks, 10.0, 11.0], warm_s=0.0)
    assert found.best == 2
    assert found.failed == {1: "did not answer within 60 s and was ended"}
    assert runner.samples.count(1) == 5
    assert 1 not in found.us


def test_a_default_that_fails_leaves_the_race_to_the_others():
    found, _ = run(["spills", 12.0, 11.0])
    assert found.best == 2
    assert 0 not in found.us


def test_all_failing_is_no_winner():
    found, runner = run(["a", "b"])
    assert (found.best, found.failed, found.us, runner.samples) == (-1, {0: "a", 1: "b"}, {}, [])


@pytest.mark.parametrize(("us", "best"), [(9.97, 0), (9.94, 1)])
def test_the_default_is_kept_unless_another_is_faster_by_half_a_percent(us, best):
    assert run([10.0, us])[0].best == best


def test_equal_candidates_go_by_the_prediction():
    assert run([20.0, 10.0, 10.0, 10.0])[0].best == 1


def test_those_close_to_the_best_stay_in_the_race():
    _, runner = run([10.0, 10.1, 10.15, 10.19, 10.1, 30.0], warm_s=0.0)
    assert all(runner.samples.count(index) >= 3 + 5 + 9 for index in range(5))
    assert runner.samples.count(5) == 3


def test_no_round_begins_after_the_budget():
    _, runner = run([10.0, 10.0, 10.0], warm_s=0.0, budget_s=0.0)
    assert len(runner.samples) == 9


def test_the_clocks_are_warmed_up_with_the_default_and_that_does_not_count():
    def cools(count):
        return 100.0 if count < 9 else 10.0

    found, runner = run([cools, 20.0], warm_s=0.1)
    assert found.best == 0
    assert found.us[0] == 10.0
    assert runner.samples[:5] == [0] * 5


def test_one_candidate_is_measured_once_round():
    found, runner = run([10.0], warm_s=0.0)
    assert (found.best, len(runner.samples)) == (0, 3)
