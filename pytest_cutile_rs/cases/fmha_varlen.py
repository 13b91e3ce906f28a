# SPDX-License-Identifier: MIT
"""Parity of `fmha_varlen`, attention of a padded batch with a length per sequence.

The shape is (batch, heads, key heads, queries, keys, head size), padding included. Rows after a sequence's queries have
no defined value (cuTile Python writes zeros only where a whole tile of them lies): they are not compared.

TileGym 1.5.1 fault, not in any case: without ``kv_lens`` and not causal, cuTile Python masks no key, so that a last
tile that reaches beyond the keys adds exp(0) for each missing one (48 keys: results half of what they should be). Cases
of that kind have 128 or 256 keys, which every tile divides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._lengths import lengths
from pytest_cutile_rs.cases._lengths import own_rows
from pytest_cutile_rs.cases._lengths import rule

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed

_OP = "fmha_varlen"


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    queries: int,
    keys: int = 0,
    dim: int = 64,
    lens: str = "qkv",
    full: bool = False,
    **more: Any,
) -> Case:
    tags = ("full" if full else "causal", lens and f"lens_{lens}")
    params = {"is_causal": not full, "lengths": lens}
    return attention_case(_OP, dtype, heads, queries, keys or queries, dim, *tags, params=params, **more)


def _all() -> list[Case]:
    """TileGym has no test of it: these are ours."""
    return [
        _case("f16", (3, 2, 2), 48, quick=True),
        _case("f16", (3, 2, 2), 48, lens=""),
        _case("f16", (3, 2, 2), 48, lens="kv", structural=False),
        _case("f16", (3, 2, 2), 48, lens="q", structural=False),
        _case("f16", (3, 2, 2), 48, full=True),
        _case("f16", (3, 2, 2), 48, lens="kv", full=True, structural=False),
        _case("f16", (1, 2, 2), 128, lens="", full=True),
        _case("f16", (2, 2, 1), 40, 256, lens="", full=True, structural=False),
        _case("bf16", (4, 4, 2), 130),
        _case("bf16", (3, 2, 2), 32, 160, full=True),
        _case("bf16", (2, 4, 1), 64, 256, structural=False),
        _case("f16", (1, 1, 1), 1, lens="", structural=False),
        _case("f16", (2, 1, 1), 200, dim=128, structural=False),
    ] + [
        _case(dtype, (8, 32, 8), length, dim=128, perf=True, full=full, structural=False)
        for dtype in ("f16", "bf16")
        for length in (1024, 4096)
        for full in (False, True)
    ]


class FmhaVarlen(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v and the lengths the case has."""
        batch, _, _, queries, keys, _ = case.shape
        kwargs = {"is_causal": self.is_causal(case)}
        given = lengths(str(case.kwargs["lengths"]), batch, queries, keys, device)
        return Call(self.qkv(case, device, seed), {**kwargs, **given})

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """Keys within the sequence, and none after the query."""
        return rule(call, case.shape[3], case.shape[4], self.is_causal(case))

    def reference(self, case: Case, call: Call) -> Any:
        """Of the rows that sequences have."""
        return own_rows(call, super().reference(case, call))

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The rows that sequences have."""
        return (own_rows(call, result),)


SUITE = FmhaVarlen()
