# SPDX-License-Identifier: MIT
"""Parity of `attention_sink_decode`: one query, split over the keys and merged.

The shape is (batch, heads, key heads, 1, keys, head size). ``start_q`` is the query's position, usually the last key's.

TileGym 1.5.1 fault, not in any case: a window that begins after the first tile of a part and reaches into the next part
is wrong in cuTile Python, which then reads as many tiles as a whole part has, so that the next part's keys count twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._sinks import SinkSuite

_OP = "attention_sink_decode"
_LSE = "partial results, and each part's log-sum-exp, rounded to the inputs' dtype"


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    keys: int,
    dim: int = 64,
    start: int | None = None,
    window: int | None = None,
    split: int | None = None,
    scale: float = 0.125,
    **more: Any,
) -> Case:
    position = keys - 1 if start is None else start
    params = {"start_q": position, "sliding_window": window, "kv_len_per_split": split, "sm_scale": scale}
    tags = (
        f"start{position}" if start is not None else "",
        f"window{window}" if window else "",
        f"split{split}" if split else "",
    )
    return attention_case(_OP, dtype, heads, 1, keys, dim, *tags, params=params, **more)


def _all() -> list[Case]:
    """TileGym has no test of it: these are ours, and its model's shapes."""
    found = [
        _case("bf16", (1, 64, 8), 128),
        _case("bf16", (1, 64, 8), 1000, window=128),
        _case("f16", (1, 8, 2), 300, quick=True),
        _case("f16", (2, 4, 4), 64, 32, start=40),
        _case("f16", (1, 2, 1), 1, structural=False),
        _case("f16", (1, 8, 1), 513, 128, window=200),
        _case("f16", (1, 4, 2), 700, start=300, split=128, quick=True),
        _case("bf16", (1, 4, 2), 700, split=256, window=180),
        _case("f16", (1, 4, 2), 700, split=128, window=300, structural=False),
        _case("bf16", (3, 6, 2), 257, 256, scale=0.0625, structural=False),
        _case("f16", (1, 4, 2), 200, 16, window=1, structural=False),
    ]
    return found + [
        _case("bf16", (batch, 64, 8), keys, window=window, perf=True, structural=False)
        for batch in (1, 8)
        for keys in (4096, 16384)
        for window in (None, 128)
    ]


class AttentionSinkDecode(SinkSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    start_is_tensor = True
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(3e-3, 1e-3, f"{_LSE} (11 bits)"),
        "bf16": Tolerance(3e-2, 8e-3, f"{_LSE} (8 bits: 2.2 % of a part's weight when that is above 8)"),
    }


SUITE = AttentionSinkDecode()
