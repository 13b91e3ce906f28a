# SPDX-License-Identifier: MIT
"""Statistics of paired measurements: pure functions on numbers.

One definition everywhere: ``speedup = t_cutile_python / t_cutile_rs``; above 1, the Rust side is faster.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

RESAMPLES = 2000
CONFIDENCE = 0.95
# Two kernels that differ by less than this are equal: launch overhead and timer resolution are of this size.
FLOOR_US = 0.5
# The least noise floor asked for, however close to 1 a threshold is.
NEAREST = 0.02


@dataclass(frozen=True)
class Estimate:
    """A median ratio with its bootstrap interval; outliers by Tukey's fences (1.5 and 3 interquartile ranges)."""

    ratio: float
    low: float
    high: float
    n: int
    mild_outliers: int = 0
    severe_outliers: int = 0

    @property
    def half_width(self) -> float:
        """Half the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Geomean:
    """The geometric mean of several cases' ratios with its interval."""

    value: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class NoiseFloor:
    """How far two equal sides come apart on this machine.

    Attributes:
        relative: the largest distance of an A/A interval's end from 1, over the cases.
        cases: name and estimate of each.
        times_us: device time of one call by name.
    """

    relative: float
    cases: tuple[tuple[str, Estimate], ...] = ()
    times_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def counted(self) -> float:
        """The largest distance that is at least ``FLOOR_US`` of its case's time: less counts as none in any pair."""
        if not self.cases:
            return self.relative
        times = self.times_us
        away = [(name, max(abs(one.low - 1.0), abs(one.high - 1.0))) for name, one in self.cases]
        return max((far for name, far in away if far * times.get(name, math.inf) >= FLOOR_US), default=0.0)

    def resolves(self, threshold: float) -> bool:
        """Whether a ratio at the threshold can be told from 1 on this machine.

        No machine tells a threshold at 1 from 1; for those above 0.98 the floor has to be below 2 %, and the case's
        interval decides.
        """
        return self.counted < max(abs(1.0 - threshold), NEAREST)


def ratios(peer_us: Sequence[float], subject_us: Sequence[float]) -> Array:
    """Speedup per block, shape (blocks,). Raises ValueError when the sides have different numbers of blocks."""
    peer, subject = np.asarray(peer_us, dtype=np.float64), np.asarray(subject_us, dtype=np.float64)
    if peer.shape != subject.shape:
        raise ValueError(f"blocks are pairs, but one side has {peer.shape} and the other {subject.shape}")
    return np.asarray(peer / subject)


@lru_cache(maxsize=256)
def _median_ranks(n: int, seed: int, resamples: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where each resample's two middle values stand among the sorted values.

    Resampling commutes with sorting, so the ranks depend on n and the seed alone, and one draw serves every case.
    """
    rng = np.random.default_rng((seed, n))
    drawn = np.sort(rng.integers(0, n, size=(resamples, n)), axis=1)
    return drawn[:, (n - 1) // 2], drawn[:, n // 2]


def bootstrap_medians(values: npt.ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES) -> Array:
    """Medians of bootstrap resamples over the last axis: shape (..., n) gives (..., resamples)."""
    ordered = np.sort(np.asarray(values, dtype=np.float64), axis=-1)
    low, high = _median_ranks(ordered.shape[-1], seed, resamples)
    return np.asarray(0.5 * (ordered[..., low] + ordered[..., high]))


def interval(samples: Array, confidence: float = CONFIDENCE) -> tuple[Array, Array]:
    """Percentile interval over the last axis."""
    tail = (1.0 - confidence) / 2
    low, high = np.quantile(samples, (tail, 1.0 - tail), axis=-1)
    return np.asarray(low), np.asarray(high)


def estimate(values: Array, *, seed: int = 0, confidence: float = CONFIDENCE) -> Estimate:
    """Median of the ratios per block with its interval; shape (n,). Raises ValueError when empty."""
    if values.size == 0:
        raise ValueError("no block to estimate from")
    low, high = interval(bootstrap_medians(values, seed=seed), confidence)
    mild, severe = _outliers(values)
    return Estimate(float(np.median(values)), float(low), float(high), int(values.size), mild, severe)


def _outliers(values: Array) -> tuple[int, int]:
    first, third = np.quantile(values, (0.25, 0.75))
    beyond = np.maximum(first - values, values - third) / max(third - first, 1e-12)
    return int(np.sum((beyond > 1.5) & (beyond <= 3))), int(np.sum(beyond > 3))


def below_floor(peer_us: float, subject_us: float, floor_us: float = FLOOR_US) -> bool:
    """Whether the two medians are too close, in absolute terms, to be called different."""
    return abs(peer_us - subject_us) < floor_us


def geomean(cases: Sequence[Array], *, seed: int = 0, confidence: float = CONFIDENCE) -> Geomean:
    """Geometric mean over cases of the median ratio, each given by its ratios per block.

    The interval comes from resampling the blocks within every case (a case is chosen, not drawn). A case that counts
    as equal is passed as ``[1.0]``. Raises ValueError without cases.
    """
    if not cases:
        raise ValueError("no case to average")
    logs = [np.log(np.median(values)) for values in cases]
    drawn = np.stack([np.log(_independent(values, seed, index)) for index, values in enumerate(cases)])
    low, high = interval(drawn.mean(axis=0), confidence)
    return Geomean(float(np.exp(np.mean(logs))), float(np.exp(low)), float(np.exp(high)), len(cases))


def _independent(values: Array, seed: int, index: int) -> Array:
    """Medians of resamples, in an order of the case's own: cases of equal size share the draw, not its order."""
    order = np.random.default_rng((seed, index)).permutation(RESAMPLES)
    return bootstrap_medians(values, seed=seed)[order]


def noise_floor(
    cases: Sequence[tuple[str, Array]], *, times_us: Mapping[str, float] | None = None, seed: int = 0
) -> NoiseFloor:
    """The floor from A/A runs: (name, ratios per block) for each case, and by name how long a call takes."""
    found = tuple((name, estimate(values, seed=seed)) for name, values in cases)
    distance = max((max(abs(one.low - 1.0), abs(one.high - 1.0)) for _, one in found), default=0.0)
    return NoiseFloor(distance, found, dict(times_us or {}))
