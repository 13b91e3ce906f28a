# SPDX-License-Identifier: MIT
"""Parity of `sparse_mla`: each query attends to a list of keys of its own; causal.

The shape is (batch, heads, key heads, queries, keys, head size). A list has distinct keys, the query's own among them,
so that every row has one to see; later keys may be on it and do not count. Embeddings are ``pe`` wide.
"""

from __future__ import annotations

import math
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
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._tensors import tensor

if TYPE_CHECKING:
    from pytest_cutile_rs.cases._attention import Allowed

_OP = "sparse_mla"


def _case(
    dtype: str,
    heads: tuple[int, int, int],
    queries: int,
    keys: int,
    topk: int,
    dim: int = 128,
    pe: int = 64,
    **more: Any,
) -> Case:
    params = {"topk": topk, "pe": pe}
    return attention_case(_OP, dtype, heads, queries, keys, dim, f"top{topk}", params=params, **more)


def _all() -> list[Case]:
    # Within TileGym's range: 1 to 128 queries, 16 to 64 heads, lists of 64 to 256, grouped heads.
    found = [
        _case("bf16", (1, 16, 16), 8, 64, 64, 64, quick=True),
        _case("bf16", (1, 16, 1), 64, 128, 64),
        _case("f16", (2, 16, 4), 32, 256, 128),
        _case("bf16", (1, 64, 8), 1, 256, 256, structural=False),
        _case("f16", (1, 32, 1), 128, 128, 128, structural=False),
        _case("bf16", (2, 64, 64), 128, 512, 256, structural=False),
        _case("f16", (1, 4, 2), 33, 70, 16, 64, 32),
        _case("bf16", (1, 2, 1), 20, 100, 32, 32, 16, structural=False),
        _case("f16", (1, 4, 4), 16, 64, 64, 64, data="nan", structural=False),
    ]
    return found + [
        _case("bf16", (1, 128, 1), 1024, 4096, topk, perf=True, structural=False) for topk in (64, 256, 1024, 2048)
    ]


class SparseMla(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())

    @staticmethod
    def _size(case: Case, name: str) -> int:
        return int(str(case.kwargs[name]))

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v, the lists, both embeddings."""
        import torch

        batch, heads, kv_heads, queries, keys, _ = case.shape
        q, k, v = self.qkv(case, device, seed)
        q_pe = tensor((batch, heads, queries, self._size(case, "pe")), case.dtype, device, seed + 3)
        k_pe = tensor((batch, 1, keys, self._size(case, "pe")), case.dtype, device, seed + 4)
        order = tensor((batch, queries, kv_heads, keys), "f32", device, seed + 5)
        own = torch.arange(keys, device=device) == torch.arange(queries, device=device)[:, None, None]
        picked = order.masked_fill(own, math.inf).topk(self._size(case, "topk"), dim=-1).indices
        return Call((q, k, v, picked.to(torch.int32), q_pe, k_pe))

    def scale(self, case: Case) -> float:
        """One over the root of both sizes."""
        return 1 / math.sqrt(case.shape[5] + self._size(case, "pe"))

    def rule(self, case: Case, call: Call) -> Allowed | None:
        """Keys of the list, up to the query."""
        import torch

        batch, heads, kv_heads, queries, keys, _ = case.shape
        listed = torch.zeros(batch, queries, kv_heads, keys, dtype=torch.bool, device=call.args[0].device)
        listed.scatter_(-1, call.args[3].long(), True)
        listed = listed.transpose(1, 2).repeat_interleave(heads // kv_heads, dim=1)
        return both(causal(), lambda rows, columns: listed[:, :, rows, columns])

    def reference(self, case: Case, call: Call) -> Any:
        """Attention over the joined vectors, in fp64."""
        q, k, v = self._joined(call)
        return attend(q, k, v, self.scale(case), allowed=self.rule(case, call))

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention` with the lists as a mask."""
        q, k, v = self._joined(call)
        allowed = mask(self.rule(case, call), case.shape[3], case.shape[4], q.device)
        return sdpa(q, k, v, self.scale(case), attn_mask=allowed)

    @staticmethod
    def _joined(call: Call) -> tuple[Any, Any, Any]:
        import torch

        q, k, v, _, q_pe, k_pe = call.args
        return torch.cat([q, q_pe], dim=-1), torch.cat([k, k_pe.expand(-1, k.shape[1], -1, -1)], dim=-1), v

    def bytes_moved(self, case: Case) -> int:
        """q, k, v, both embeddings, the lists and the result once."""
        batch, heads, kv_heads, queries, keys, _ = case.shape
        vectors = batch * self._size(case, "pe") * (heads * queries + keys) * ITEMSIZE[case.dtype]
        return super().bytes_moved(case) + vectors + 4 * batch * queries * kv_heads * self._size(case, "topk")

    def flops(self, case: Case) -> int:
        """Products of 2 (D + E) and of 2 D operations for each query and listed key."""
        batch, heads, _, queries, _, dim = case.shape
        return (4 * dim + 2 * self._size(case, "pe")) * batch * heads * queries * self._size(case, "topk")


SUITE = SparseMla()
