# SPDX-License-Identifier: MIT
"""What the suites of ops over (B, H, S, D) queries, keys and values have in common.

A case's shape is (batch, heads, key heads, queries, keys, head size).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention import NAN_POLICY
from pytest_cutile_rs.cases._attention import ROUNDING_POLICY
from pytest_cutile_rs.cases._attention import TOLERANCE
from pytest_cutile_rs.cases._attention import attend
from pytest_cutile_rs.cases._attention import causal
from pytest_cutile_rs.cases._attention import mask
from pytest_cutile_rs.cases._attention import pairs
from pytest_cutile_rs.cases._attention import repeat_heads
from pytest_cutile_rs.cases._attention import sdpa
from pytest_cutile_rs.cases._attention import traffic
from pytest_cutile_rs.cases._tensors import tensor

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed
    from pytest_cutile_rs.cases._attention import Score


def attention_case(
    op: str,
    dtype: str,
    heads: tuple[int, int, int],
    queries: int,
    keys: int,
    dim: int,
    *tags: str,
    params: Mapping[str, object] | None = None,
    **more: Any,
) -> Case:
    """A case named after its batch x heads x key heads, queries x keys x head size, and tags."""
    named = [*tags, more.get("layout", ""), more.get("data", "")]
    size = ["x".join(map(str, heads)), f"{queries}x{keys}x{dim}"]
    name = "-".join([dtype, *size, *(tag for tag in named if tag)])
    return Case(op, name, dtype, (*heads, queries, keys, dim), params=tuple((params or {}).items()), **more)


class AttentionSuite(OpSuite):
    """An op over q, k, v; says what differs through `rule` and `score`."""

    tolerance: ClassVar[Mapping[str, Tolerance]] = TOLERANCE
    nan_policy = NAN_POLICY
    rounding_policy = ROUNDING_POLICY

    def qkv(self, case: Case, device: str, seed: int) -> tuple[Any, Any, Any]:
        """Queries, keys and values."""
        batch, heads, kv_heads, queries, keys, dim = case.shape
        # Special values in the queries alone: those of a key would reach every row that sees it.
        other = "randn" if case.data in ("nan", "inf") else case.data
        q = tensor((batch, heads, queries, dim), case.dtype, device, seed, layout=case.layout, data=case.data)
        k = tensor((batch, kv_heads, keys, dim), case.dtype, device, seed + 1, layout=case.layout, data=other)
        v = tensor((batch, kv_heads, keys, dim), case.dtype, device, seed + 2, layout=case.layout)
        return q, k, v

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v and the case's keyword arguments."""
        return Call(self.qkv(case, device, seed), case.kwargs)

    def scale(self, case: Case) -> float:
        """Of the scores: the keyword argument, or one over the root of the head size."""
        given = case.kwargs.get("scaling")
        return float(given) if isinstance(given, float) else 1 / math.sqrt(case.shape[5])

    def is_causal(self, case: Case) -> bool:
        """Whether a query sees no key after its own; the ops' default."""
        return bool(case.kwargs.get("is_causal", True))

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """Which keys a query sees; the queries are the last ones of the keys' positions."""
        queries, keys = case.shape[3:5]
        return causal(keys - queries) if self.is_causal(case) else None

    def score(self, case: Case, call: Call) -> Score | None:
        """What is done to a scaled score."""
        return None

    def reference(self, case: Case, call: Call) -> Any:
        """Softmax attention in fp64."""
        q, k, v = call.args[:3]
        return attend(q, k, v, self.scale(case), allowed=self.rule(case, call), score=self.score(case, call))

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention`, whose fast kernels take no mask; two products where scores are changed."""
        q, k, v = self.for_torch(case, call)
        queries, keys = case.shape[3:5]
        if self.score(case, call) is not None:
            return self._unfused(case, call)
        if type(self).rule is AttentionSuite.rule and queries == keys:
            return sdpa(q, k, v, self.scale(case), is_causal=self.is_causal(case))
        return sdpa(q, k, v, self.scale(case), attn_mask=mask(self.rule(case, call), queries, keys, q.device))

    def _unfused(self, case: Case, call: Call) -> Any:
        import torch

        q, k, v = call.args[:3]
        k, v = repeat_heads(k, q.shape[1]), repeat_heads(v, q.shape[1])
        rows = torch.arange(q.shape[2], device=q.device)[:, None]
        columns = torch.arange(k.shape[2], device=q.device)[None, :]
        scores = self.scale(case) * (q @ k.transpose(-1, -2))
        change, allowed = self.score(case, call), self.rule(case, call)
        scores = scores if change is None else change(scores, rows, columns)
        scores = scores if allowed is None else scores.masked_fill(~allowed(rows, columns), -math.inf)
        return torch.softmax(scores, dim=-1).to(v.dtype) @ v

    @staticmethod
    def for_torch(case: Case, call: Call) -> tuple[Any, Any, Any]:
        """q, k, v in a dtype that PyTorch's attention takes: fp8 as f16."""
        import torch

        q, k, v = call.args[:3]
        return tuple(x.to(torch.float16) for x in (q, k, v)) if case.dtype.startswith("f8") else (q, k, v)

    def bytes_moved(self, case: Case) -> int:
        """q, k, v and the result once."""
        return traffic(case.dtype, *case.shape)

    def flops(self, case: Case) -> int:
        """Two products of 2 D operations for each pair of a query and a key it sees."""
        batch, heads, _, queries, keys, dim = case.shape
        return 4 * dim * batch * heads * pairs(queries, keys, self.is_causal(case))
