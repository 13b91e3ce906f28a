# SPDX-License-Identifier: MIT
"""Parity of `chunk_gated_delta_rule`; the shape is (batch, tokens, heads, heads, K, V). See `_delta_rule`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._delta_rule import DeltaRuleSuite
from pytest_cutile_rs.cases._delta_rule import delta_case

_OP = "chunk_gated_delta_rule"
_STATE = Tolerance(5e-3, 1e-3, "keys and corrected values kept in bf16 between the two kernels (2^-9 each)")


def _case(
    dtype: str, batch: int, tokens: int, heads: int, k: int, v: int, *flags: str, chunk: int = 64, **more: Any
) -> Case:
    return delta_case(_OP, dtype, (batch, tokens, heads, heads, k, v), *flags, chunk=chunk, **more)


def _all() -> list[Case]:
    # TileGym's own test.
    found = [
        _case("bf16", 1, 1, 1, 64, 64),
        _case("bf16", 2, 1, 4, 64, 64, structural=False),
        _case("bf16", 2, 16, 4, 64, 64, quick=True, structural=False),
        _case("bf16", 1, 32, 8, 128, 128, "final"),
        _case("bf16", 2, 64, 4, 64, 64, structural=False),
        _case("bf16", 2, 8, 4, 64, 64, "init", "final", quick=True),
        _case("bf16", 1, 16, 4, 64, 128, structural=False),
        _case("bf16", 2, 8, 4, 128, 64, "l2"),
        _case("bf16", 2, 4, 8, 256, 128, "init", "final", structural=False),
        _case("bf16", 1, 100, 4, 64, 64, structural=False),
        _case("bf16", 2, 128, 4, 64, 64, chunk=32),
        _case("bf16", 1, 37, 4, 64, 64, structural=False),
        _case("bf16", 2, 65, 4, 128, 128, "final", structural=False),
        _case("bf16", 2, 512, 8, 128, 128, "l2", structural=False),
        _case("bf16", 2, 2048, 8, 128, 128, "l2", structural=False),
        _case("bf16", 1, 10782, 8, 128, 128, "l2", structural=False),
    ]
    found += [
        _case("f16", 1, 70, 2, 64, 64, "init", "final"),
        _case("f16", 1, 50, 2, 32, 32, "l2", "final", chunk=16, structural=False),
        _case("f32", 1, 40, 2, 64, 64, "final", structural=False),
        _case("bf16", 1, 70, 2, 64, 64, data="nan", structural=False),
    ]
    return found + [
        _case("bf16", 16, tokens, 8, 128, 128, perf=True, structural=tokens == 1024)
        for tokens in (128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    ]


class ChunkGatedDeltaRule(DeltaRuleSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(2e-3, 1e-5, "products of tf32 operands (11 bits); results are near 1e-3"),
        "f16": Tolerance(5e-3, 1e-4, "q, k and corrected values kept in bf16 between the kernels; results near 1e-3"),
        "bf16": Tolerance(5e-3, 1e-4, "q, k and corrected values kept in bf16 between the kernels; results near 1e-3"),
    }
    rounding_policy = "fp32 with tf32 products; bf16 between the kernels unless f32; one rounding at the store"

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The state's is wider: it is a hundred times as large as the result."""
        return _STATE if output else self.tolerance[case.dtype]


SUITE = ChunkGatedDeltaRule()
