# SPDX-License-Identifier: MIT
"""Parity of `gemma_attention`: a cap on the scores, and a window to both sides of a query.

The shape is (batch, heads, key heads, queries, keys, head size); the op is for as many queries as keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention import TOLERANCE
from pytest_cutile_rs.cases._attention import both
from pytest_cutile_rs.cases._attention import causal
from pytest_cutile_rs.cases._attention import soft_cap
from pytest_cutile_rs.cases._attention import within
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed
    from pytest_cutile_rs.cases._attention import Score

_OP = "gemma_attention"


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    length: int,
    dim: int = 64,
    window: int = 0,
    cap: float | None = None,
    full: bool = False,
    **more: Any,
) -> Case:
    params = {"window_size": window, "soft_cap": cap, "is_causal": not full}
    tags = ("full" if full else "causal", f"window{window}" if window else "", f"cap{cap:g}" if cap else "")
    return attention_case(_OP, dtype, heads, length, length, dim, *tags, params=params, **more)


def _all() -> list[Case]:
    # TileGym's own test, then its timed shape.
    found = [
        _case("f16", (1, 8, 8), 128, window=64, cap=10.0, quick=True),
        _case("bf16", (1, 12, 4), 512, window=256, cap=30.0),
        _case("f16", (1, 8, 8), 128),
        _case("f32", (1, 8, 8), 128, full=True),
        _case("bf16", (1, 16, 8), 8192, 128, window=4096, cap=50.0, perf=True),
    ]
    found += [
        _case("bf16", (2, 2, 1), 2, structural=False),
        _case("f16", (1, 4, 2), 65, full=True, cap=10.0),
        _case("f16", (1, 4, 1), 127, window=5, structural=False),
        _case("bf16", (1, 2, 2), 300, window=33, full=True),
        _case("bf16", (1, 2, 1), 257, window=128, cap=30.0, full=True, structural=False),
        _case("f16", (1, 2, 1), 129, 256, cap=50.0),
        _case("f32", (1, 2, 1), 70, 32, window=16, cap=20.0, structural=False),
        _case("f16", (1, 2, 2), 96, cap=1.0, data="wide", structural=False),
        _case("f16", (1, 2, 2), 40, data="nan", structural=False),
    ]
    return found + [
        _case("bf16", (2, 8, 1), length, 256, cap=50.0, perf=True, structural=False) for length in (512, 2048, 8192)
    ]


class GemmaAttention(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        **TOLERANCE,
        "f16": Tolerance(2e-3, 2e-3, "probabilities and result rounded to 11 bits; the approximate tanh (2^-11)"),
    }

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """Causality and the window."""
        window = int(str(case.kwargs["window_size"]))
        return both(causal() if self.is_causal(case) else None, within(window, window) if window else None)

    def score(self, case: Case, call: Call) -> Score | None:
        """The cap."""
        cap = case.kwargs["soft_cap"]
        return soft_cap(cap if isinstance(cap, float) else None)


SUITE = GemmaAttention()
