# SPDX-License-Identifier: MIT
"""Parity of `mla`, attention whose scores have a second part of the positions' embedding; causal.

The shape is (batch, heads, key heads, queries, keys, head size); embeddings are 64 wide, and one head of the keys'
serves all. There are as many queries as keys.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention import TOLERANCE
from pytest_cutile_rs.cases._attention import attend
from pytest_cutile_rs.cases._attention import causal
from pytest_cutile_rs.cases._attention import pairs
from pytest_cutile_rs.cases._attention import sdpa
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._tensors import tensor

_OP = "mla"
_PE = 64


def _case(dtype: str, batch: int, heads: int, group: int, length: int, dim: int = 128, **more: Any) -> Case:
    return attention_case(_OP, dtype, (batch, heads, heads // group), length, length, dim, **more)


def _all() -> list[Case]:
    # TileGym's own test, then its timed shapes.
    found = [_case("bf16", 1, 16, group, 9, quick=group == 4) for group in (1, 4)]
    found += [
        _case("f16", 1, 2, 1, 130, quick=True),
        _case("bf16", 2, 4, 2, 257, structural=False),
        _case("f8e5m2", 1, 2, 1, 65),
        _case("f16", 1, 4, 4, 64, 64),
        _case("f16", 1, 1, 1, 1, structural=False),
        _case("f16", 1, 2, 1, 128, params={"scaling": 0.02}, structural=False),
        _case("f16", 1, 2, 1, 40, data="nan", structural=False),
        _case("bf16", 1, 2, 1, 100, data="wide", structural=False),
    ]
    return found + [
        _case(dtype, 4, 32, 1, length, perf=True, structural=length == 1024)
        for dtype in ("bf16", "f8e5m2")
        for length in (512, 1024, 2048, 4096, 8192)
    ]


class Mla(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        **TOLERANCE,
        "f8e5m2": Tolerance(0.125, 0.25, "probabilities and result rounded to 3 bits (2^-3)"),
    }

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v, both embeddings, and the two arguments that the op demands."""
        batch, heads, _, queries, keys, _ = case.shape
        q_pe = tensor((batch, heads, queries, _PE), case.dtype, device, seed + 3)
        k_pe = tensor((batch, 1, keys, _PE), case.dtype, device, seed + 4)
        return Call((*self.qkv(case, device, seed), q_pe, k_pe, True, case.kwargs.get("scaling")))

    def scale(self, case: Case) -> float:
        """One over the root of both sizes unless given."""
        given = case.kwargs.get("scaling")
        return float(given) if isinstance(given, float) else 1 / math.sqrt(case.shape[5] + _PE)

    def reference(self, case: Case, call: Call) -> Any:
        """Attention over the joined vectors, in fp64."""
        q, k, v = self._joined(call)
        return attend(q, k, v, self.scale(case), allowed=causal())

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention` over the joined vectors."""
        import torch

        q, k, v = self._joined(call)
        if case.dtype.startswith("f8"):
            q, k, v = (operand.to(torch.float16) for operand in (q, k, v))
        return sdpa(q, k, v, self.scale(case), is_causal=True)

    @staticmethod
    def _joined(call: Call) -> tuple[Any, Any, Any]:
        import torch

        q, k, v, q_pe, k_pe = call.args[:5]
        return torch.cat([q, q_pe], dim=-1), torch.cat([k, k_pe.expand(-1, k.shape[1], -1, -1)], dim=-1), v

    def bytes_moved(self, case: Case) -> int:
        """q, k, v, both embeddings and the result once."""
        batch, heads, _, queries, keys, _ = case.shape
        return super().bytes_moved(case) + batch * _PE * (heads * queries + keys) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Products of 2 (D + 64) and of 2 D operations for each pair of a query and a key it sees."""
        batch, heads, _, queries, keys, dim = case.shape
        return (4 * dim + 2 * _PE) * batch * heads * pairs(queries, keys, True)


SUITE = Mla()
