# SPDX-License-Identifier: MIT
"""TileGym's published protocol, best-of-4, for figures that can be put beside those. It never gates.

Each side is measured alone, one after the other: a pass warms up, then takes the median device time of a call, the
L2 cache flushed before each; of four passes the best counts. What speaks against it: minutes lie between the sides, so
a clock that moves in between is in the ratio, and a minimum has no interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from pytest_cutile_rs.result import CheckResult

NAME = "best-of-4"
PASSES = 4
BLOCKS = 20
WARM_S = 0.025


def best_of_4(name: str, timer: Any, sides: Mapping[str, Any], pair: tuple[str, str], seed: int) -> dict[str, Any]:
    """Measure a case.

    Args:
        timer: an open `pytest_cutile_rs.timing.Timer`.
        sides: what to call, by side.
        pair: the peer's side and ours.

    Returns:
        ``{"name", "us": best median per side, "passes": all medians, "ratio": peer / ours}``; with ``"error"`` and
        without a ratio when a side left no times.
    """
    from pytest_cutile_rs.timing import Plan

    plan = Plan(min_blocks=BLOCKS, max_blocks=BLOCKS, warm_s=WARM_S)
    passes: dict[str, list[float]] = {}
    for side in pair:
        for number in range(PASSES):
            record = timer.pair(f"{name} {NAME} {side} {number + 1}", {side: sides[side]}, plan, seed=seed)
            if record.error or not record.kept:
                return {"name": NAME, "error": f"{side}: {record.error or 'no block kept'} {record.detail}".strip()}
            passes.setdefault(side, []).append(record.median_us(side))
    best = {side: min(values) for side, values in passes.items()}
    return {"name": NAME, "us": best, "passes": passes, "ratio": best[pair[0]] / best[pair[1]]}


def summary(results: Iterable[CheckResult]) -> dict[str, Any] | None:
    """The protocol's figures over a run, with ours over the same cases; None when it was not asked for."""
    found = [result.data for result in results if isinstance(result.data.get("protocol"), dict)]
    both = [data for data in found if data["protocol"].get("ratio") and data.get("ratio")]
    if not found:
        return None
    return {
        "name": NAME,
        "gates": False,
        "cases": len(both),
        "errors": sum("error" in data["protocol"] for data in found),
        "geomean": _geomean([data["protocol"]["ratio"] for data in both]),
        "paired_geomean": _geomean([data["ratio"] for data in both]),
    }


def _geomean(ratios: list[float]) -> float | None:
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
