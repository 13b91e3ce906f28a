# SPDX-License-Identifier: MIT
"""What the two ops with attention sinks have in common.

A sink is one logit per head that takes part in the softmax and has no value. A case's shape is (batch, heads, key
heads, queries, keys, head size); the op's tensors are (batch, queries, key heads, group, head size) and (batch, keys,
key heads, head size). Query 0 is at position ``start_q`` of the keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._attention import attend
from pytest_cutile_rs.cases._attention import both
from pytest_cutile_rs.cases._attention import causal
from pytest_cutile_rs.cases._attention import mask
from pytest_cutile_rs.cases._attention import sdpa
from pytest_cutile_rs.cases._attention import within
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._tensors import tensor

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed


class SinkSuite(AttentionSuite):
    """An op over queries, keys, values and sinks."""

    start_is_tensor = False
    """Whether the op takes ``start_q`` as a tensor alone."""

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """Queries by group, keys, values, sinks and the case's keyword arguments."""
        import torch

        batch, heads, kv_heads, queries, keys, dim = case.shape
        query = tensor((batch, queries, kv_heads, heads // kv_heads, dim), case.dtype, device, seed, data=case.data)
        key = tensor((batch, keys, kv_heads, dim), case.dtype, device, seed + 1)
        value = tensor((batch, keys, kv_heads, dim), case.dtype, device, seed + 2)
        sinks = tensor((heads,), case.dtype, device, seed + 3)
        kwargs = dict(case.kwargs)
        if self.start_is_tensor:
            kwargs["start_q"] = torch.tensor([self._start(case)], dtype=torch.int32, device=device)
        return Call((query, key, value, sinks), kwargs)

    def scale(self, case: Case) -> float:
        """The op's default is one over the root of 64, whatever the head size."""
        given = case.kwargs.get("sm_scale")
        return float(given) if isinstance(given, float) else 0.125

    @staticmethod
    def _start(case: Case) -> int:
        return int(str(case.kwargs.get("start_q", 0)))

    @staticmethod
    def _window(case: Case) -> int | None:
        window = case.kwargs.get("sliding_window")
        return None if window is None else int(str(window))

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """No key after the query, and the last ``sliding_window`` alone."""
        start, window = self._start(case), self._window(case)
        return both(causal(start), within(window - 1, 0, start) if window else None)

    def reference(self, case: Case, call: Call) -> Any:
        """(batch, queries, heads * head size) in fp64."""
        q, k, v = self._by_head(call)
        found = attend(q, k, v, self.scale(case), allowed=self.rule(case, call), sinks=call.args[3])
        return found.transpose(1, 2).flatten(2)

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention` with the sinks as the bias of one more key, which is zero as its value."""
        import torch

        q, k, v = self._by_head(call)
        heads, queries, keys = case.shape[1], *case.shape[3:5]
        allowed = mask(self.rule(case, call), queries, keys, q.device)
        assert allowed is not None
        bias = torch.zeros(heads, queries, keys + 1, dtype=q.dtype, device=q.device)
        bias[..., :keys].masked_fill_(~allowed, float("-inf"))
        bias[..., keys] = call.args[3][:, None]
        k, v = (torch.nn.functional.pad(operand, (0, 0, 0, 1)) for operand in (k, v))
        return sdpa(q, k, v, self.scale(case), attn_mask=bias[None]).transpose(1, 2).flatten(2)

    @staticmethod
    def _by_head(call: Call) -> tuple[Any, Any, Any]:
        query, key, value = call.args[:3]
        return query.flatten(2, 3).transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)

    def bytes_moved(self, case: Case) -> int:
        """Query, the keys and values that any query sees, and the result."""
        batch, heads, kv_heads, queries, _, dim = case.shape
        first = min(low for low, _ in self._ranges(case))
        last = max(high for _, high in self._ranges(case))
        return 2 * batch * dim * (heads * queries + kv_heads * (last - first)) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Two products of 2 D operations for each pair of a query and a key it sees."""
        return 4 * case.shape[0] * case.shape[1] * case.shape[5] * sum(high - low for low, high in self._ranges(case))

    def _ranges(self, case: Case) -> list[tuple[int, int]]:
        """First and behind the last key of each query."""
        queries, keys = case.shape[3:5]
        start, window = self._start(case), self._window(case)
        lows = [max(0, start + row + 1 - window) if window else 0 for row in range(queries)]
        return [(min(low, keys), min(keys, start + row + 1)) for row, low in enumerate(lows)]
