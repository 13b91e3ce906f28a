# SPDX-License-Identifier: MIT
"""Parity of `recurrent_gated_delta_rule`; the shape is (batch, tokens, key heads, value heads, K, V).

See `_delta_rule`. One token alone runs a kernel of its own; ``persistent`` picks one of the two others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._delta_rule import DeltaRuleSuite
from pytest_cutile_rs.cases._delta_rule import delta_case

_OP = "recurrent_gated_delta_rule"
_STATE = Tolerance(1e-4, 1e-6, "fp32 throughout")


def _case(
    dtype: str, batch: int, tokens: int, heads: int, k: int, v: int, *flags: str, values: int = 0, **more: Any
) -> Case:
    return delta_case(_OP, dtype, (batch, tokens, heads, values or heads, k, v), *flags, **more)


def _all() -> list[Case]:
    found = []
    for dtype in ("bf16", "f32"):
        # TileGym's own test.
        found += [
            _case(dtype, 2, 1, 4, 64, 64),
            _case(dtype, 1, 1, 16, 128, 128, "init", "final", "l2", quick=dtype == "bf16"),
            _case(dtype, 2, 16, 4, 64, 64, quick=dtype == "f32"),
            _case(dtype, 1, 32, 8, 128, 128, "final", structural=False),
            _case(dtype, 2, 8, 4, 64, 64, "init", "final"),
            _case(dtype, 1, 16, 4, 64, 128, structural=False),
            _case(dtype, 2, 8, 4, 128, 64, "l2", structural=False),
            _case(dtype, 1, 1, 1, 64, 64, structural=False),
            _case(dtype, 1, 64, 4, 64, 64, structural=False),
        ]
    found += [
        _case("bf16", 1, 12, 2, 64, 64, "init", "final", values=6),
        _case("f32", 1, 1, 2, 64, 64, "init", "final", values=4, structural=False),
        _case("bf16", 2, 9, 2, 64, 64, "final", persistent=True),
        _case("f32", 2, 9, 2, 64, 64, "final", "init", "l2", persistent=False, structural=False),
        _case("bf16", 1, 7, 3, 100, 72, "final", structural=False),
        _case("f16", 1, 20, 2, 32, 32, "init", "final", structural=False),
        _case("bf16", 1, 12, 2, 64, 64, data="nan", structural=False),
    ]
    return found + [
        _case("bf16", 2, tokens, 4, 128, 128, perf=True, structural=tokens == 1024)
        for tokens in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    ]


class RecurrentGatedDeltaRule(DeltaRuleSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-4, 1e-7, "fp32 throughout; results are near 1e-3"),
        "f16": Tolerance(1e-3, 1e-6, "fp32 throughout, one rounding to 11 bits; results are near 1e-3"),
        "bf16": Tolerance(5e-3, 1e-6, "fp32 throughout, one rounding to 8 bits (2^-9); results are near 1e-3"),
    }
    rounding_policy = "fp32 throughout, one rounding at the store"

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The state's is that of fp32."""
        return _STATE if output else self.tolerance[case.dtype]


SUITE = RecurrentGatedDeltaRule()
