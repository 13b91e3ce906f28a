# SPDX-License-Identifier: MIT
"""The references that case files share, against the same thing written another way."""

from __future__ import annotations

import math

import pytest
import torch

from pytest_cutile_rs.cases import _attention as attention
from pytest_cutile_rs.cases._experts import by_expert
from pytest_cutile_rs.cases._experts import chosen
from pytest_cutile_rs.cases._experts import padded_blocks
from pytest_cutile_rs.suites import suites


def operands(queries: int, keys: int, heads: int = 4, kv_heads: int = 2, dim: int = 8):
    generator = torch.Generator().manual_seed(1)
    shapes = ((2, heads, queries, dim), (2, kv_heads, keys, dim), (2, kv_heads, keys, dim))
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def one_row(q, k, v, batch, head, row, group, keep, change=lambda score, column: score, sink=None):
    """One row of attention with Python's own arithmetic."""
    query = q[batch, head, row].tolist()
    columns = [column for column in range(k.shape[2]) if keep(column)]
    scores = [
        change(
            0.5 * math.fsum(a * b for a, b in zip(query, k[batch, head // group, column].tolist(), strict=True)), column
        )
        for column in columns
    ]
    weights = [math.exp(score) for score in scores]
    total = math.fsum(weights) + (math.exp(sink) if sink is not None else 0.0)
    values = [v[batch, head // group, column].tolist() for column in columns]
    result = [
        math.fsum(w * value[i] for w, value in zip(weights, values, strict=True)) / total for i in range(v.shape[3])
    ]
    return torch.tensor(result, dtype=torch.float64), math.log(total)


def test_attention_with_grouped_heads_a_mask_a_cap_and_sinks(monkeypatch) -> None:
    monkeypatch.setattr(attention, "_SCORES", 64)  # a row at a time
    q, k, v = operands(5, 9)
    sinks = torch.tensor([0.5, -1.0, 2.0, 0.0])
    rule = attention.both(attention.causal(4), attention.within(3, 0, 4))
    found, lse = attention.attend_with_lse(q, k, v, 0.5, allowed=rule, score=attention.soft_cap(1.5), sinks=sinks)
    for batch, head, row in ((0, 0, 0), (1, 3, 4), (0, 2, 2)):
        want, total = one_row(
            q, k, v, batch, head, row, 2, lambda column, row=row: row + 4 - 3 <= column <= row + 4,
            lambda score, column: 1.5 * math.tanh(score / 1.5), float(sinks[head]),
        )  # fmt: skip
        torch.testing.assert_close(found[batch, head, row], want)
        assert math.isclose(lse[batch, head, row], total)


def test_a_row_that_sees_nothing_is_nan_or_what_is_asked_for() -> None:
    q, k, v = operands(2, 3)

    def nothing_for_row_0(rows, columns):
        return rows + 0 * columns > 0

    assert attention.attend(q, k, v, 1.0, allowed=nothing_for_row_0)[:, :, 0].isnan().all()
    found = attention.attend(q, k, v, 1.0, allowed=nothing_for_row_0, empty=0.0)
    assert (found[:, :, 0] == 0).all()
    assert found[:, :, 1].isfinite().all()


@pytest.mark.parametrize(("queries", "keys", "left"), [(5, 5, None), (3, 8, None), (4, 9, 2), (7, 7, 100), (6, 6, 0)])
def test_pairs_counts_what_the_mask_allows(queries: int, keys: int, left: int | None) -> None:
    rule = attention.causal(keys - queries)
    if left is not None:
        rule = attention.both(rule, attention.within(left, 0, keys - queries))
    assert attention.pairs(queries, keys, True, left) == int(attention.mask(rule, queries, keys, "cpu").sum())


def test_experts_order_and_padding() -> None:
    ids = chosen(11, 5, 2, seed=3, used=4)
    assert ids.shape == (11, 2)
    assert (ids[:, 0] != ids[:, 1]).all()
    assert int(ids.max()) < 4
    order, starts = by_expert(ids, 5)
    flat = ids.flatten()
    for expert in range(5):
        own = order[starts[expert] : starts[expert + 1]]
        assert own.tolist() == (flat == expert).nonzero()[:, 0].tolist()
    places, owners = padded_blocks(ids, 5, 4)
    assert places.numel() == 4 * owners.numel()
    for block, expert in zip(places.view(-1, 4), owners, strict=True):
        assert all(int(place) == 22 or flat[place] == expert for place in block)
    assert sorted(places[places < 22].tolist()) == list(range(22))


@pytest.mark.parametrize(
    ("op", "case"),
    [
        ("chunk_gated_delta_rule", "f16-1x70x2x2x64x64-init-final-chunk64"),
        ("recurrent_gated_delta_rule", "bf16-1x12x2x6x64x64-init-final"),
        ("mamba2_chunk_forward", "bf16-1x96x8x2x32x32-chunk32"),
        ("mamba2_chunk_backward", "f16-1x64x4x4x64x64-chunk32"),
    ],
)
def test_a_scan_over_chunks_is_the_recurrence(op: str, case: str) -> None:
    suite = suites()[op]
    [case] = [one for one in suite.cases if one.id == case]
    call = suite.inputs(case, "cpu", 0)
    for number, (chunks, tokens) in enumerate(zip(suite.torch(case, call), suite.reference(case, call), strict=True)):
        error = (chunks.double() - tokens).abs()
        # One rounding of the result to its dtype, and fp32 sums.
        unit = torch.finfo(chunks.dtype).eps
        assert (error <= unit * tokens.abs() + 1e-5 * tokens.abs().max()).all(), number


@pytest.mark.parametrize("op", ["mamba2_chunk_forward", "mamba2_chunk_backward"])
def test_references_of_many_tokens_are_those_of_few(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long sequences have chunks in fp64 for their reference, short ones the recurrence: both are the formula."""
    suite = suites()[op]
    case = next(one for one in suite.cases if one.shape[1] == 64)
    call = suite.inputs(case, "cpu", 0)
    tokens = suite.reference(case, call)
    monkeypatch.setattr("pytest_cutile_rs.cases._ssd._MANY_TOKENS", 64)
    for by_chunks, by_token in zip(suite.reference(case, call), tokens, strict=True):
        assert by_chunks.dtype == torch.float64
        torch.testing.assert_close(by_chunks, by_token, rtol=1e-10, atol=1e-10)
