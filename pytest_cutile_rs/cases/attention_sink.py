# SPDX-License-Identifier: MIT
"""Parity of `attention_sink`; the shape is (batch, heads, key heads, queries, keys, head size)."""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._sinks import SinkSuite

_OP = "attention_sink"


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    queries: int,
    keys: int,
    dim: int = 64,
    start: int = 0,
    window: int | None = None,
    **more: Any,
) -> Case:
    params = {"start_q": start, "sliding_window": window, **more.pop("params", {})}
    tags = (f"start{start}" if start else "", f"window{window}" if window else "")
    return attention_case(_OP, dtype, heads, queries, keys, dim, *tags, params=params, **more)


def _tilegym() -> list[Case]:
    """TileGym's own test: 8 groups of 8 heads."""
    return [
        _case(
            "bf16",
            (batch, 64, 8),
            queries,
            keys,
            start=start,
            window=window,
            structural=(batch, start) == (1, 5),
            quick=(batch, queries, keys, start, window) == (1, 1, 32, 5, 128),
        )
        for batch in (1, 2)
        for queries in (1, 128)
        for keys in (32, 128)
        for start in (0, 5)
        for window in (None, 128)
    ]


def _timed() -> list[Case]:
    found = [
        _case("bf16", (1, 64, 8), 128, keys, start=keys - 128, window=window, perf=True, structural=False)
        for keys in (2048, 4096)
        for window in (None, 128)
    ]
    found += [
        _case("bf16", (2, 64, 8), 128, 2048, 128, start=1920, perf=True, structural=False),
        _case("bf16", (1, 64, 8), 10820, 10820, perf=True, structural=False),
        _case("bf16", (1, 64, 8), 10820, 10820, window=128, perf=True, structural=False),
        _case("bf16", (1, 64, 8), 1, 10919, start=10918, perf=True, structural=False),
    ]
    return found


def _sizes() -> list[Case]:
    return [
        _case("f16", (1, 2, 1), 65, 65, 32, quick=True),
        _case("f16", (2, 3, 3), 40, 130, start=90, window=16),
        _case("bf16", (1, 4, 2), 257, 257, 128, window=100),
        _case("f16", (1, 2, 2), 1, 1, structural=False),
        _case("f16", (1, 2, 1), 20, 129, start=109, params={"sm_scale": 0.3}, structural=False),
        _case("f16", (1, 2, 1), 30, 64, start=34, window=1, structural=False),
        _case("f16", (1, 2, 1), 48, 48, data="wide", structural=False),
        _case("f16", (1, 2, 1), 48, 48, data="nan", structural=False),
    ]


class AttentionSink(SinkSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_sizes()])


SUITE = AttentionSink()
