# SPDX-License-Identifier: MIT
"""Batches of sequences of different lengths, padded to one: their lengths, masks and rows.

Sequence b has ``q_lens[b]`` queries, the last ones of its ``kv_lens[b]`` keys.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.cases._attention import both
from pytest_cutile_rs.cases._attention import causal

if TYPE_CHECKING:
    import torch

    from pytest_cutile_rs.cases._attention import Allowed

WHICH = ("", "kv", "q", "qkv")
"""Which lengths a case gives; the others are the padded extents."""


def lengths(which: str, batch: int, queries: int, keys: int, device: str) -> dict[str, torch.Tensor]:
    """``q_lens`` and ``kv_lens`` as asked for; the last sequence is full, the others are shorter."""
    import torch

    found = {}
    q_lens = [queries] * batch
    if which.startswith("q"):
        q_lens = [max(1, math.ceil(queries * (index + 1) / batch)) for index in range(batch)]
        found["q_lens"] = torch.tensor(q_lens, dtype=torch.int32, device=device)
    if which.endswith("kv"):
        kv_lens = [max(low, keys - 7 * (batch - 1 - index)) for index, low in enumerate(q_lens)]
        found["kv_lens"] = torch.tensor(kv_lens, dtype=torch.int32, device=device)
    return found


def prefix(call: Call, queries: int, keys: int) -> torch.Tensor:
    """How many keys come before a sequence's first query, (batch or 1, 1, 1, 1)."""
    return _given(call, "kv_lens", keys) - _given(call, "q_lens", queries)


def rule(call: Call, queries: int, keys: int, is_causal: bool) -> Allowed | None:
    """Keys within the sequence, and none after the query."""
    last = _given(call, "kv_lens", keys)
    return both(lambda rows, columns: columns < last, causal(prefix(call, queries, keys)) if is_causal else None)


def own_rows(call: Call, result: Any) -> Any:
    """The rows of a (B, H, S, D) result that the sequences have, one sequence after the other: (H, rows, D)."""
    import torch

    q_lens = call.kwargs.get("q_lens")
    if q_lens is None:
        return result
    return torch.cat([result[index, :, : int(length)] for index, length in enumerate(q_lens)], dim=1)


def _given(call: Call, name: str, extent: int) -> torch.Tensor:
    import torch

    values = call.kwargs.get(name)
    if values is None:
        values = torch.tensor([extent], device=call.args[0].device)
    return values.view(-1, 1, 1, 1)
