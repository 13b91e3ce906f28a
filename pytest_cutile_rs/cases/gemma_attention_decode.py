# SPDX-License-Identifier: MIT
"""Parity of `gemma_attention_decode`: one query after the last key, with a cap and a window back.

The shape is (batch, heads, key heads, 1, keys, head size). TileGym's public signature has ``scaling``, cuTile
Python's implementation ``sm_scale``: a ``scaling`` of the caller is ignored there, so no case gives one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention import soft_cap
from pytest_cutile_rs.cases._attention import within
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed
    from pytest_cutile_rs.cases._attention import Score

_OP = "gemma_attention_decode"
_LSE = "partial results, and the logarithm of each part's sum, rounded to the inputs' dtype"


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    keys: int,
    dim: int = 64,
    window: int = 0,
    cap: float | None = None,
    **more: Any,
) -> Case:
    params = {"window_size": window, "soft_cap": cap}
    tags = (f"window{window}" if window else "", f"cap{cap:g}" if cap else "")
    return attention_case(_OP, dtype, heads, 1, keys, dim, *tags, params=params, **more)


def _all() -> list[Case]:
    # TileGym's own test: 128 to 10024 keys, window 0, 64, 256, cap none, 10, 50, f16 and bf16.
    found = [
        _case("f16", (1, 8, 8), 128, quick=True),
        _case("f16", (1, 8, 4), 512, window=64, cap=10.0),
        _case("bf16", (1, 16, 8), 1024, window=256, cap=50.0),
        _case("f16", (2, 8, 1), 10024, cap=50.0, structural=False),
        _case("bf16", (1, 8, 8), 129, cap=10.0, structural=False),
    ]
    found += [
        _case("f16", (2, 4, 1), 1, structural=False),
        _case("bf16", (1, 4, 2), 100, window=7),
        _case("f16", (1, 6, 2), 257, dim=128, cap=30.0),
        _case("f16", (3, 4, 2), 385, dim=32, window=200, structural=False),
        _case("bf16", (1, 2, 1), 300, dim=256, window=128, cap=50.0, quick=True),
        _case("f16", (1, 4, 2), 300, data="nan", structural=False),
    ]
    found += [
        _case("bf16", (1, 16, 8), 4096, 128, cap=50.0, perf=True),
        _case("bf16", (1, 16, 8), 8192, 128, window=4096, cap=50.0, perf=True, structural=False),
        _case("bf16", (1, 32, 8), 16384, 128, cap=50.0, perf=True, structural=False),
    ]
    return found


class GemmaAttentionDecode(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(2e-3, 2e-3, f"{_LSE} (11 bits)"),
        "bf16": Tolerance(1e-2, 8e-3, f"{_LSE} (8 bits: up to 1 % of a part's weight)"),
    }

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """The window back from the last key."""
        window = int(str(case.kwargs["window_size"]))
        return within(window, 0, case.shape[4] - 1) if window else None

    def score(self, case: Case, call: Call) -> Score | None:
        """The cap."""
        cap = case.kwargs["soft_cap"]
        return soft_cap(cap if isinstance(cap, float) else None)


SUITE = GemmaAttentionDecode()
