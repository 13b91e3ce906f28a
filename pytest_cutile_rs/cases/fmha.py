# SPDX-License-Identifier: MIT
"""Parity of `fmha`, attention of whole sequences; the shape is (batch, heads, key heads, queries, keys, head size)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention import TOLERANCE
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case

_OP = "fmha"
# The others among the timed shapes have the same machine code as these, on both sides.
_COMPARED = {("f16", 1024, False), ("bf16", 1024, True), ("f8e5m2", 1024, False), ("bf16", 1025, True)}


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    queries: int,
    keys: int = 0,
    dim: int = 128,
    full: bool = False,
    **more: Any,
) -> Case:
    params = {"is_causal": not full, **more.pop("params", {})}
    tag = "full" if full else "causal"
    return attention_case(_OP, dtype, heads, queries, keys or queries, dim, tag, params=params, **more)


def _tilegym() -> list[Case]:
    """The shapes of TileGym's own test."""
    return [
        _case("bf16", (1, 1, 1), 9, full=True, quick=True),
        _case("f16", (1, 32, 32), 2047),
        _case("bf16", (2, 32, 32), 4095),
        _case("f8e5m2", (2, 32, 32), 4095),
    ]


def _timed() -> list[Case]:
    """TileGym's timed shapes, and its two of a language model's."""
    lengths = (512, 1024, 2048, 4096, 8192, 1025, 2049, 4097)
    found = [
        _case(dtype, (4, 32, 32), length, full=full, perf=True, structural=(dtype, length, full) in _COMPARED)
        for dtype in ("f16", "bf16", "f8e5m2")
        for full in (False, True)
        for length in lengths
    ]
    return found + [
        _case(dtype, (1, 32, 32), length, perf=True, structural=(dtype, length) == ("bf16", 9))
        for dtype in ("f16", "bf16", "f8e5m2")
        for length in (9, 31072)
    ]


def _sizes() -> list[Case]:
    """What TileGym's shapes leave out: grouped heads, a prefix, head sizes, lengths around the tiles' edges."""
    found = [
        _case(dtype, (1, 2, 2), 65, dim=64, quick=dtype != "bf16", structural=dtype == "f16")
        for dtype in ("f16", "bf16", "f8e5m2")
    ]
    found += [_case("f16", (1, 2, 1), length, dim=32, structural=False) for length in (1, 2, 127, 128, 129, 257)]
    found += [_case("f16", (1, 1, 1), length, dim=32, full=True, structural=False) for length in (1, 127, 128, 129)]
    found += [
        _case(dtype, (1, 2, 1), 67, dim=dim, structural=False)
        for dtype in ("f16", "bf16", "f8e5m2")
        for dim in (96, 128, 256)
    ]
    found += [
        _case("bf16", (2, 8, 2), 96, dim=64, full=True),
        _case("f16", (1, 6, 2), 40, dim=64),
        _case("f16", (1, 4, 1), 16, 200, dim=64),
        _case("bf16", (1, 2, 2), 33, 161, dim=64, full=True, structural=False),
        _case("f16", (1, 1, 1), 70, dim=256, structural=False),
        _case("f16", (1, 2, 2), 64, dim=64, params={"scaling": 0.3}, layout="padded"),
        _case("bf16", (1, 2, 2), 64, dim=64, layout="transposed", structural=False),
    ]
    return found


def _data() -> list[Case]:
    return [
        _case("f16", (1, 1, 1), 40, dim=32, data=data, full=full, structural=False)
        for data in ("nan", "constant", "wide")
        for full in (False, True)
    ]


def _edges() -> list[Case]:
    """Nothing to do, and what is refused."""
    return [
        _case("f16", (0, 2, 2), 64, dim=64, structural=False),
        _case("bf16", (1, 2, 2), 0, 64, dim=64, full=True, structural=False),
        _case("f16", (1, 3, 2), 16, dim=64, raises="3 query heads are not a multiple of 2 key heads", structural=False),
        _case("bf16", (1, 1, 1), 16, dim=512, raises="the head size is 512; at most 256", structural=False),
    ]


class Fmha(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_sizes(), *_data(), *_edges()])
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        **TOLERANCE,
        "f8e5m2": Tolerance(0.125, 0.25, "probabilities and result rounded to 3 bits (2^-3); TileGym allows 3"),
    }


SUITE = Fmha()
