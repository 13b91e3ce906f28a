# SPDX-License-Identifier: MIT
"""What the two ops of latent attention for one query share: keys that are their own values.

A case's shape is (batch, heads, keys, latent size, embedding size). Every head attends to the same keys.
"""

from __future__ import annotations

import math
from typing import Any

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.cases._attention import NAN_POLICY
from pytest_cutile_rs.cases._attention import ROUNDING_POLICY
from pytest_cutile_rs.cases._attention import TOLERANCE
from pytest_cutile_rs.cases._attention import attend_with_lse
from pytest_cutile_rs.cases._attention import sdpa
from pytest_cutile_rs.cases._tensors import tensor


class LatentSuite(OpSuite):
    """An op over q (B, H, D), its embedding, kv (B, S, D) and its embedding."""

    tolerance = TOLERANCE
    nan_policy = NAN_POLICY
    rounding_policy = ROUNDING_POLICY

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, its embedding, kv, its embedding."""
        batch, heads, keys, dim, pe = case.shape
        q = tensor((batch, heads, dim), case.dtype, device, seed, data=case.data)
        q_pe = tensor((batch, heads, pe), case.dtype, device, seed + 1)
        kv = tensor((batch, keys, dim), case.dtype, device, seed + 2)
        kv_pe = tensor((batch, keys, pe), case.dtype, device, seed + 3)
        return Call((q, q_pe, kv, kv_pe), {"sm_scale": self.scale(case), **case.kwargs})

    def scale(self, case: Case) -> float:
        """One over the root of both sizes."""
        return 1 / math.sqrt(case.shape[3] + case.shape[4])

    def attention(self, case: Case, call: Call) -> tuple[Any, Any]:
        """The result (B, H, D) and the logarithm, base 2, of each head's sum (B, H), in fp64."""
        q, k, v = self._joined(call)
        found, lse = attend_with_lse(q, k, v, self.scale(case))
        return found[:, 0], lse[:, 0] / math.log(2)

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention`, the heads taken as queries of one head."""
        q, k, v = self._joined(call)
        return sdpa(q, k, v, self.scale(case))[:, 0]

    @staticmethod
    def _joined(call: Call) -> tuple[Any, Any, Any]:
        import torch

        q, q_pe, kv, kv_pe = call.args
        return torch.cat([q, q_pe], -1)[:, None], torch.cat([kv, kv_pe], -1)[:, None], kv[:, None]

    def bytes_moved(self, case: Case) -> int:
        """q, keys, embeddings and the result once."""
        batch, heads, keys, dim, pe = case.shape
        return batch * ((heads + keys) * (dim + pe) + heads * dim) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Products of 2 (D + E) and of 2 D operations for each head and key."""
        batch, heads, keys, dim, pe = case.shape
        return batch * heads * keys * (4 * dim + 2 * pe)
