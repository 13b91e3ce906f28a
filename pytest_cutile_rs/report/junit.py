# SPDX-License-Identifier: MIT
"""What pytest's own JUnit XML shall say of a check: a test case's properties."""

from __future__ import annotations

from pytest_cutile_rs.result import CheckResult

# Figures of one side each; the side's name is appended.
_PER_SIDE = ("us", "host_us")


def properties(result: CheckResult) -> list[tuple[str, object]]:
    """Names and values: the verdict, its reason, and every figure that is a single value."""
    found: list[tuple[str, object]] = [("verdict", result.status), ("reason", result.reason), ("dtype", result.dtype)]
    found += [(name, value) for name, value in result.data.items() if isinstance(value, (str, int, float, bool))]
    for name in _PER_SIDE:
        sides = result.data.get(name)
        if isinstance(sides, dict):
            found += [(f"{name}_{side}", value) for side, value in sides.items() if value is not None]
    return found
