# SPDX-License-Identifier: MIT
"""The noise floor of a machine: how far two equal sides come apart on it, from a few A/A pairs at a run's start."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from pytest_cutile_rs import gate
from pytest_cutile_rs import stats
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.timing.base import Plan
from pytest_cutile_rs.timing.base import Side
from pytest_cutile_rs.timing.base import Timer

BUDGET_S = 3.0
# An A/A pair that cannot be measured gives way to the next one, this many times.
SPARE = 20


class NoNoiseFloor(Exception):
    """None of the A/A pairs could be measured."""


def measure(
    timer: Timer,
    pairs: Iterable[tuple[str, Callable[[], Side]]],
    count: int,
    plan: Plan | None = None,
    *,
    seed: int = 0,
) -> stats.NoiseFloor:
    """Measure up to ``count`` cases against themselves.

    Args:
        timer: open.
        pairs: names, and functions that make the side when its turn comes, so that inputs live one at a time.
        plan: of each pair; it ends as soon as the interval is narrow.

    Raises:
        NoNoiseFloor: nothing could be measured; the text says why.
    """
    found: list[tuple[str, stats.Array]] = []
    times: dict[str, float] = {}
    errors: list[str] = []
    plan = plan or Plan(budget_s=BUDGET_S)
    until = gate.decided(subject="b", peer="a")
    for name, make in pairs:
        if len(found) >= count or len(errors) > SPARE:
            break
        try:
            side = make()
        except Exception as error:  # inputs that do not fit, an op that refuses: another case will do
            errors.append(f"{name}: {type(error).__name__}: {error}")
            continue
        record = timer.pair(f"A/A {name}", {"a": side, "b": side}, plan, seed=seed, until=until)
        if record.error or not record.kept:
            errors.append(f"{name}: {record.error or 'no block kept'} {record.detail}")
        else:
            found.append((name, stats.ratios(record.blocks["a"], record.blocks["b"])))
            times[name] = record.median_us("a")
    if not found:
        raise NoNoiseFloor(f"the self-check measured nothing: {'; '.join(errors) or 'no case given'}")
    return stats.noise_floor(found, times_us=times, seed=seed)


def candidates(cases: Sequence[tuple[OpSuite, Case]], count: int) -> list[tuple[OpSuite, Case]]:
    """The cases to measure against themselves, best first.

    Those with much work come first, since a kernel of a few us says more about the clock than about the machine:
    ``count`` spread evenly over the upper half by bytes moved, then the others as spares.
    """
    ordered = sorted(cases, key=lambda one: (-one[0].bytes_moved(one[1]), one[1].op, one[1].id))
    upper = max(1, (len(ordered) + 1) // 2)
    chosen = sorted({round(i * (upper - 1) / max(1, count - 1)) for i in range(count)} if ordered else ())
    rest = [index for index in range(len(ordered)) if index not in chosen]
    return [ordered[index] for index in (*chosen, *rest)]


def to_json(floor: stats.NoiseFloor, gpu: str) -> dict[str, Any]:
    """For the run's record."""
    cases = [
        {"name": name, "us": floor.times_us.get(name), "ratio": one.ratio, "low": one.low, "high": one.high, "n": one.n}
        for name, one in floor.cases
    ]
    return {"gpu": gpu, "relative": floor.relative, "counted": floor.counted, "cases": cases}
