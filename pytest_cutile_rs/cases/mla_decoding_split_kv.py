# SPDX-License-Identifier: MIT
"""Parity of `mla_decoding_split_kv`, latent attention of one query, split over the keys and merged.

The shape is (batch, heads, keys, latent, embedding size).
"""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._latent import LatentSuite

_OP = "mla_decoding_split_kv"


def _case(
    dtype: str, batch: int, heads: int, keys: int, split: int = 0, dim: int = 512, pe: int = 64, **more: Any
) -> Case:
    tags = [f"split{split}" if split else "", more.get("data", "")]
    name = "-".join([dtype, f"{batch}x{heads}x{keys}x{dim}x{pe}", *(tag for tag in tags if tag)])
    params = (("kv_len_per_split", split),) if split else ()
    return Case(_OP, name, dtype, (batch, heads, keys, dim, pe), params=params, **more)


def _all() -> list[Case]:
    # TileGym's own test, with one batch.
    found = [
        _case("f16", 1, heads, keys, split, structural=heads == 16, quick=(heads, keys, split) == (8, 129, 128))
        for keys in (129, 1024, 8192, 11049)
        for split in (128, 512)
        for heads in (8, 16, 24, 32)
    ]
    found += [
        _case("bf16", 2, 16, 300, dim=128),
        _case("f16", 1, 20, 257, 128, 128, 32, structural=False),
        _case("bf16", 1, 16, 1, dim=128, structural=False),
        _case("f16", 1, 16, 400, 128, 128, data="nan", structural=False),
    ]
    return found + [
        _case("f16", 1, 16, keys, perf=True, structural=False) for keys in (512, 1024, 2048, 4096, 8192, 11049, 31079)
    ]


class MlaDecodingSplitKv(LatentSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        return self.attention(case, call)[0]


SUITE = MlaDecodingSplitKv()
