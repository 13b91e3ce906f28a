# SPDX-License-Identifier: MIT
"""Parity of `swa_attention`: a query sees the last ``window_size`` keys up to its own; f16 alone.

The shape is (batch, heads, key heads, queries, keys, head size); query 0 is at the position of key 0. Not causal, a
query sees every later key too.

TileGym 1.5.1 fault, not in any case: its mask value -1e30 times the scale, minus the row's maximum, is one fused
multiply-add, so that a row whose first tile of 128 keys lies outside its window exponentiates a rounding error of 1e20,
and becomes NaN where that is positive: head sizes 16, 64 and 256 with the default scale. 32 and 128 go well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._attention import pairs
from pytest_cutile_rs.cases._attention import within
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed

_OP = "swa_attention"


def _case(heads: tuple[int, int, int], length: int, window: int, dim: int = 64, **more: Any) -> Case:
    full = more.pop("full", False)
    params = {"window_size": window, "is_causal": not full}
    tags = (f"window{window}", "full" if full else "")
    return attention_case(_OP, more.pop("dtype", "f16"), heads, length, length, dim, *tags, params=params, **more)


def _all() -> list[Case]:
    # Within TileGym's range: lengths 1 to 4096, windows 1 to 4096, grouped heads.
    found = [
        _case((1, 2, 2), 1, 1, structural=False),
        _case((1, 4, 2), 128, 32, quick=True),
        _case((1, 2, 2), 100, 1, structural=False),
        _case((2, 4, 4), 256, 64, dim=128),
        _case((1, 8, 2), 257, 100, dim=32),
        _case((1, 2, 1), 127, 500, structural=False),
        _case((1, 2, 2), 65, 0, structural=False),
        _case((1, 2, 2), 192, 130, dim=128),
        _case((1, 2, 2), 150, 40, full=True, quick=True),
        _case((1, 2, 2), 512, 256, dim=32, structural=False),
        _case((1, 2, 2), 60, 20, data="nan", structural=False),
        _case((1, 8, 8), 1024, 256, dim=128, structural=False),
        _case((1, 32, 8), 4096, 4096, dim=128, structural=False),
    ]
    found += [_case((1, 1, 1), 64, 16, dtype="bf16", raises="(?i)fp16|float16", structural=False)]
    return found + [
        _case((1, 32, 8), length, 4096, dim=128, perf=True, structural=length == 512)
        for length in (512, 1024, 2048, 8192, 16384)
    ]


class SwaAttention(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """The window, which a width of zero or less opens to all earlier keys."""
        window = self._window(case)
        return within(window - 1, 0 if self.is_causal(case) else case.shape[4])

    @staticmethod
    def _window(case: Case) -> int:
        window = int(str(case.kwargs["window_size"]))
        return window if window > 0 else case.shape[4]

    def flops(self, case: Case) -> int:
        """Two products of 2 D operations for each pair of a query and a key it sees."""
        batch, heads, _, queries, keys, dim = case.shape
        return 4 * dim * batch * heads * pairs(queries, keys, self.is_causal(case), self._window(case) - 1)


SUITE = SwaAttention()
