# SPDX-License-Identifier: MIT
"""Attention by its definition, for the references of every attention op, and what these ops' files share."""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Tolerance

if TYPE_CHECKING:
    import torch

    Allowed = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    Score = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_SCORES = 1 << 24
"""How many scores the reference holds at once: a long sequence is done in slices of its queries."""

TOLERANCE = {
    "f32": Tolerance(1e-2, 1e-2, "operands and probabilities are rounded to tf32 (11 bits)"),
    "f16": Tolerance(2e-3, 1e-3, "fp32 softmax; probabilities and result rounded to 11 bits (2^-11) each"),
    "bf16": Tolerance(8e-3, 8e-3, "fp32 softmax; probabilities and result rounded to 8 bits (2^-9) each"),
}
"""Of attention over standard normal inputs, where a result is at most a few units."""

NAN_POLICY = (
    "a NaN in a query makes its row NaN; one in a key or value makes the rows NaN that see it, and may make those that "
    "share a tile with it, where a probability of zero multiplies it"
)
ROUNDING_POLICY = "scores and sums in fp32; probabilities rounded to the inputs' dtype before the second product"


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    *,
    allowed: Allowed | None = None,
    score: Score | None = None,
    sinks: torch.Tensor | None = None,
    empty: float = math.nan,
) -> torch.Tensor:
    """``softmax(scale * q k^T) v`` in fp64 over (B, H, S, D) tensors; see `attend_with_lse`."""
    return attend_with_lse(q, k, v, scale, allowed=allowed, score=score, sinks=sinks, empty=empty)[0]


def attend_with_lse(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    *,
    allowed: Allowed | None = None,
    score: Score | None = None,
    sinks: torch.Tensor | None = None,
    empty: float = math.nan,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same, and the natural logarithm of each row's sum of exponentials, (B, H, S).

    Args:
        q: queries; ``k`` and ``v`` may have fewer heads, each of which serves a group of neighbouring query heads.
        k: keys; ``v`` are the values, whose last extent may differ.
        scale: of the scores.
        allowed: of query positions (S, 1) and key positions (1, S_kv): which scores count, broadcastable to them.
        score: of scaled scores, query positions and key positions: the scores to use instead (bias, soft cap).
        sinks: one logit per head that takes part in the sum and has no value.
        empty: the result of a row that may see nothing.
    """
    import torch

    q, k, v = (operand.to(torch.float64) for operand in (q, k, v))
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    k, v = (repeat_heads(operand, heads) for operand in (k, v))
    columns = torch.arange(keys, device=q.device)[None, :]
    out, lse = [], []
    for first, last in _slices(queries, q.shape[0] * heads * keys):
        rows = torch.arange(first, last, device=q.device)[:, None]
        scores = scale * (q[:, :, first:last] @ k.transpose(-1, -2))
        if score is not None:
            scores = score(scores, rows, columns)
        if allowed is not None:
            scores = scores.masked_fill(~allowed(rows, columns), -math.inf)
        if sinks is not None:
            sink = sinks.to(torch.float64).view(1, heads, 1, 1).expand(*scores.shape[:3], 1)
            scores = torch.cat([scores, sink], dim=-1)
        probabilities = torch.softmax(scores, dim=-1)
        if not math.isnan(empty):
            nothing = (scores == -math.inf).all(dim=-1, keepdim=True)
            probabilities = torch.where(nothing, empty, probabilities)
        out.append(probabilities[..., :keys] @ v)
        lse.append(torch.logsumexp(scores, dim=-1))
    return torch.cat(out, dim=2), torch.cat(lse, dim=2)


def _slices(queries: int, scores_per_query: int) -> Iterator[tuple[int, int]]:
    step = max(1, _SCORES // max(scores_per_query, 1))
    for first in range(0, max(queries, 1), step):
        yield first, min(queries, first + step)


def repeat_heads(operand: torch.Tensor, heads: int) -> torch.Tensor:
    """(B, H_kv, S, D) with each head repeated for the query heads it serves."""
    return operand if operand.shape[1] == heads else operand.repeat_interleave(heads // operand.shape[1], dim=1)


def causal(offset: Any = 0) -> Allowed:
    """A query sees keys up to its own position, ``offset`` keys after its index (the length of a prefix)."""
    return lambda rows, columns: columns <= rows + offset


def within(left: int, right: int, offset: Any = 0) -> Allowed:
    """A query sees keys at most ``left`` before and ``right`` after its position."""
    return lambda rows, columns: (columns - rows - offset >= -left) & (columns - rows - offset <= right)


def both(*rules: Allowed | None) -> Allowed | None:
    """What every rule allows; None stands for all keys."""
    given = [rule for rule in rules if rule is not None]

    def allowed(rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        result = given[0](rows, columns)
        for rule in given[1:]:
            result = result & rule(rows, columns)
        return result

    return allowed if given else None


def soft_cap(cap: float | None) -> Score | None:
    """``cap * tanh(score / cap)``."""
    if cap is None:
        return None
    limit = cap
    return lambda scores, rows, columns: limit * (scores / limit).tanh()


def mask(allowed: Allowed | None, queries: int, keys: int, device: Any) -> torch.Tensor | None:
    """The rule as a boolean matrix, for PyTorch's own attention."""
    import torch

    if allowed is None:
        return None
    rows, columns = torch.arange(queries, device=device)[:, None], torch.arange(keys, device=device)[None, :]
    return allowed(rows, columns)


def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float | None, **more: Any) -> torch.Tensor:
    """PyTorch's own attention, with grouped heads where they differ."""
    import torch

    grouped = q.shape[1] != k.shape[1]
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scale, enable_gqa=grouped, **more)


def traffic(dtype: str, batch: int, heads: int, kv_heads: int, queries: int, keys: int, dim: int) -> int:
    """Bytes of q, k, v and the result, each crossing memory once."""
    return 2 * batch * dim * (heads * queries + kv_heads * keys) * ITEMSIZE[dtype]


def pairs(queries: int, keys: int, is_causal: bool, left: int | None = None) -> int:
    """How many (query, key) pairs count, the queries being the last ``queries`` of ``keys`` positions.

    ``left`` bounds how far back a query sees, in keys beside its own.
    """
    if not is_causal:
        return queries * keys
    total = 0
    if left is None:
        return queries * (keys - queries) + queries * (queries + 1) // 2
    for row in range(keys - queries, keys):
        total += min(row, left) + 1
    return total
