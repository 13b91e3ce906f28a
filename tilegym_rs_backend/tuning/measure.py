# SPDX-License-Identifier: MIT
"""Successive halving: all candidates a few times, the better half more often, until one is left.

Candidates take turns sample by sample, so that a clock that drifts hits all of them alike. What is timed, and how, is
behind `Runner`; the rules here need no GPU.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field
from typing import Protocol


class Failed(Exception):
    """A candidate cannot be measured, for the reason in the text; the others can."""


class Runner(Protocol):
    """Times candidates by number. Candidate 0 is the shipped default."""

    def prepare(self, index: int) -> None:
        """Load it and run it once; raises Failed, also for a result that differs from candidate 0's."""

    def sample(self, index: int) -> float:
        """Run it once with a cold L2 and return microseconds of device time; raises Failed."""


@dataclass(frozen=True)
class Terms:
    """How long to measure.

    Attributes:
        rounds: samples per candidate still in the race, round by round.
        keep: the share that goes on to the next round.
        close: whoever is within this share of the best goes on in any case.
        gain: a candidate takes the default's place only if it is faster by this share.
        warm_s: seconds the default runs before anything is counted, to bring the clocks up.
        budget_s: after that many seconds no further round is begun.
    """

    rounds: tuple[int, ...] = (3, 5, 9, 17)
    keep: float = 0.5
    close: float = 0.02
    gain: float = 0.005
    warm_s: float = 0.1
    budget_s: float = 10.0


@dataclass
class Measured:
    """What came out.

    Attributes:
        best: the number of the winner, -1 if all failed.
        us: median per candidate that was timed, over all its samples.
        failed: why, per candidate that dropped out.
    """

    best: int = -1
    us: dict[int, float] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)


def halve(
    count: int, runner: Runner, terms: Terms | None = None, *, clock: Callable[[], float] = time.perf_counter
) -> Measured:
    """Return the fastest of `count` candidates; see `Terms`."""
    terms = terms or Terms()
    found = Measured()
    samples: dict[int, list[float]] = {}
    begin = clock()

    def attempt(index: int, step: Callable[[int], float | None]) -> None:
        try:
            value = step(index)
        except Failed as error:
            found.failed[index] = str(error)
            samples.pop(index, None)
            return
        if value is None:
            samples[index] = []
        else:
            samples[index].append(value)

    for index in range(count):
        attempt(index, runner.prepare)
    _warm(samples, attempt, runner, terms, clock)
    alive = list(samples)
    for number, repeats in enumerate(terms.rounds):
        if number and (len(alive) < 2 or clock() - begin > terms.budget_s):
            break
        for _ in range(repeats):
            for index in alive:
                if index in samples:
                    attempt(index, runner.sample)
        alive = _next_round(samples, [index for index in alive if index in samples], terms)
    found.us = {index: statistics.median(values) for index, values in samples.items() if values}
    if alive:
        found.best = alive[0]
        default = found.us.get(0)
        if default is not None and found.us[found.best] > default * (1 - terms.gain):
            found.best = 0
    return found


def _warm(
    samples: dict[int, list[float]],
    attempt: Callable[[int, Callable[[int], float | None]], None],
    runner: Runner,
    terms: Terms,
    clock: Callable[[], float],
) -> None:
    """Run the first candidate for a while; its times do not count."""
    begin = clock()
    while samples and clock() - begin < terms.warm_s:
        first = next(iter(samples))
        attempt(first, runner.sample)
    for values in samples.values():
        values.clear()


def _next_round(samples: dict[int, list[float]], alive: list[int], terms: Terms) -> list[int]:
    """Return who goes on, the fastest first; equal ones in the order of their numbers, the better prediction first."""
    ranked = sorted(alive, key=lambda index: (statistics.median(samples[index]), index))
    if not ranked:
        return []
    limit = statistics.median(samples[ranked[0]]) * (1 + terms.close)
    kept = max(1, round(len(ranked) * terms.keep))
    return [index for place, index in enumerate(ranked) if place < kept or statistics.median(samples[index]) <= limit]
