# SPDX-License-Identifier: MIT
"""The statistics, against brute force where that is possible."""

from __future__ import annotations

import numpy as np
import pytest

from pytest_cutile_rs import stats


def test_speedup_is_peer_over_subject() -> None:
    assert stats.ratios([30.0, 33.0], [20.0, 22.0]).tolist() == [1.5, 1.5]
    with pytest.raises(ValueError, match="blocks are pairs"):
        stats.ratios([1.0], [1.0, 2.0])


@pytest.mark.parametrize("n", [5, 20, 41])
def test_bootstrap_equals_brute_force(n: int) -> None:
    values = np.random.default_rng(1).normal(1, 0.1, n)
    drawn = np.random.default_rng((0, n)).integers(0, n, size=(stats.RESAMPLES, n))
    brute = np.median(np.sort(values)[drawn], axis=1)
    assert np.allclose(stats.bootstrap_medians(values), brute)


def test_bootstrap_is_seeded_and_batched() -> None:
    values = np.random.default_rng(2).normal(1, 0.1, (3, 20))
    assert np.array_equal(stats.bootstrap_medians(values)[1], stats.bootstrap_medians(values[1]))
    assert not np.array_equal(stats.bootstrap_medians(values, seed=1), stats.bootstrap_medians(values, seed=2))


def test_interval_covers_the_true_median() -> None:
    rng = np.random.default_rng(3)
    low, high = stats.interval(stats.bootstrap_medians(rng.normal(1, 0.05, (2000, 40))))
    assert 0.92 < np.mean((low <= 1) & (high >= 1)) < 0.98


def test_estimate_counts_outliers_and_keeps_them() -> None:
    values = np.concatenate([np.linspace(0.99, 1.01, 40), [1.025, 3.0]])
    found = stats.estimate(values)
    assert found.n == 42
    assert (found.mild_outliers, found.severe_outliers) == (1, 1)
    assert found.low <= found.ratio <= found.high
    assert found.half_width < 0.01
    with pytest.raises(ValueError, match="no block"):
        stats.estimate(np.array([]))


def test_estimate_of_constant_ratios() -> None:
    found = stats.estimate(np.ones(20))
    assert (found.ratio, found.low, found.high, found.severe_outliers) == (1.0, 1.0, 1.0, 0)


def test_geomean_of_reciprocal_ratios_is_one() -> None:
    rng = np.random.default_rng(4)
    fast, slow = 2 * rng.normal(1, 0.01, 40), rng.normal(1, 0.01, 40) / 2
    mean = stats.geomean([fast, slow])
    assert mean.value == pytest.approx(1.0, abs=0.01)
    assert mean.low < 1 < mean.high
    assert mean.n == 2


def test_geomean_interval_narrows_with_cases() -> None:
    rng = np.random.default_rng(5)
    cases = [rng.normal(1, 0.03, 20) for _ in range(16)]
    one, all_of_them = stats.geomean(cases[:1]), stats.geomean(cases)
    assert (all_of_them.high - all_of_them.low) < 0.5 * (one.high - one.low)
    with pytest.raises(ValueError, match="no case"):
        stats.geomean([])


def test_floor() -> None:
    assert stats.below_floor(2.0, 2.49)
    assert not stats.below_floor(2.0, 2.51)
    quiet = stats.noise_floor([("a", np.random.default_rng(6).normal(1, 0.01, 40))])
    assert quiet.resolves(0.95)
    assert not stats.noise_floor([("a", np.full(40, 1.08))]).resolves(0.95)
