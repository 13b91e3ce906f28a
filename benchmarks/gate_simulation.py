# SPDX-License-Identifier: MIT
"""How often the gate is wrong: its verdicts on simulated devices whose true ratio is known.

Prints the table of docs/measurement.md:  python benchmarks/gate_simulation.py [--seeds 2000]
The statistics are the product's own; only the device is simulated, and many seeds at a time.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pytest_cutile_rs import gate
from pytest_cutile_rs import stats
from pytest_cutile_rs.timing import Plan

TRUTHS = (0.90, 0.92, 0.93, 0.94, 0.945, 0.95, 0.955, 0.96, 0.97, 0.98, 1.00)
# Of one launch; two launches a side and block give the spread of block ratios that an H200 shows for a 22 us kernel.
LAUNCH_NOISE = 0.025
Array = np.ndarray


@dataclass(frozen=True)
class Scenario:
    name: str
    slow: Callable[[Array, int, np.random.Generator], Array]
    noise: float = LAUNCH_NOISE
    outliers: float = 0.0


def steady(when: Array, seeds: int, rng: np.random.Generator) -> Array:
    return np.ones((1, when.size))


def drift(when: Array, seeds: int, rng: np.random.Generator) -> Array:
    """Clocks fall by up to 40 % over the run."""
    return 1 + rng.uniform(0.1, 0.4, (seeds, 1)) * when


def throttle(when: Array, seeds: int, rng: np.random.Generator) -> Array:
    """Several steps to 1.2-1.6 times the duration and back, anywhere, inside blocks too."""
    edges = np.sort(rng.uniform(0, 1, (seeds, 6, 1)), axis=1)
    inside = (when > edges[:, 0::2]) & (when < edges[:, 1::2])
    return 1 + inside.any(axis=1) * rng.uniform(0.2, 0.6, (seeds, 1))


def boost(when: Array, seeds: int, rng: np.random.Generator) -> Array:
    """The first part of the run rides boost clocks that fade."""
    return 1 - rng.uniform(0.15, 0.25, (seeds, 1)) * np.exp(-when / rng.uniform(0.01, 0.2, (seeds, 1)))


def everything(when: Array, seeds: int, rng: np.random.Generator) -> Array:
    return drift(when, seeds, rng) * throttle(when, seeds, rng) * boost(when, seeds, rng)


SCENARIOS = (
    Scenario("steady", steady),
    Scenario("drift", drift),
    Scenario("throttle", throttle),
    Scenario("boost", boost),
    Scenario("outliers", steady, outliers=0.05),
    Scenario("noisy", steady, noise=0.06),
    Scenario("all", everything, noise=0.04, outliers=0.05),
)


def launches(
    scenario: Scenario, truth: float, blocks: int, seeds: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Times of (subject, peer), shape (seeds, blocks, 2): A B B A or B A A B by lot. The peer takes ``truth`` us."""
    when = np.linspace(0, 1, 4 * blocks)
    times = np.broadcast_to(scenario.slow(when, seeds, rng), (seeds, when.size)).reshape(seeds, blocks, 4)
    times = times * np.maximum(0.1, rng.normal(1, scenario.noise, times.shape))
    times = times * np.where(rng.random(times.shape) < scenario.outliers, rng.uniform(1.2, 4, times.shape), 1)
    outer, inner = times[..., [0, 3]], times[..., [1, 2]]
    subject_outside = rng.random((seeds, blocks, 1)) < 0.5
    return np.where(subject_outside, outer, inner), truth * np.where(subject_outside, inner, outer)


def verdicts(ratios: Array, threshold: float = gate.THRESHOLD, plan: Plan | None = None) -> dict[str, float]:
    """Shares of PASS, FAIL, AMBIGUOUS for rows of ratios per block, under the product's stop rule."""
    plan = plan or Plan()
    count, looks = plan.min_blocks, []
    while True:
        looks.append(count)
        if count >= plan.max_blocks:
            break
        count = min(2 * count, plan.max_blocks)
    result = np.full(len(ratios), gate.AMBIGUOUS, dtype=object)
    running = np.arange(len(ratios))
    for look in looks:
        low, high = stats.interval(stats.bootstrap_medians(ratios[running, :look]))
        result[running] = np.where(low >= threshold, gate.PASS, np.where(high < threshold, gate.FAIL, gate.AMBIGUOUS))
        clear = (result[running] != gate.AMBIGUOUS) & ((high - low) / 2 <= gate.HALF_WIDTH)
        running = running[~clear]
        if not running.size:
            break
    return {v: float(np.mean(result == v)) for v in (gate.PASS, gate.FAIL, gate.AMBIGUOUS)}


def rates(scenario: Scenario, truth: float, seeds: int, seed: int = 0) -> dict[str, float]:
    rng = np.random.default_rng((seed, round(truth * 1000)))
    subject, peer = launches(scenario, truth, Plan().max_blocks, seeds, rng)
    return verdicts(peer.mean(axis=-1) / subject.mean(axis=-1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2000)
    seeds = parser.parse_args().seeds
    print(f"{seeds} runs each; PASS / FAIL / AMBIGUOUS in % at threshold {gate.THRESHOLD}\n")
    print("| true ratio | " + " | ".join(s.name for s in SCENARIOS) + " |")
    print("|---" * (len(SCENARIOS) + 1) + "|")
    for truth in TRUTHS:
        cells = []
        for scenario in SCENARIOS:
            share = rates(scenario, truth, seeds)
            cells.append(" / ".join(f"{100 * share[v]:.1f}" for v in (gate.PASS, gate.FAIL, gate.AMBIGUOUS)))
        print(f"| {truth:.3f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
