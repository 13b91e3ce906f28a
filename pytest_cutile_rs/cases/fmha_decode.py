# SPDX-License-Identifier: MIT
"""Parity of `fmha_decode`, attention of one query per sequence, split over the keys and merged.

The shape is (batch, heads, key heads, 1, keys, head size). The number of splits follows from that of the GPU's SMs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case

_OP = "fmha_decode"


def _case(
    dtype: str, batch: int, heads: int, group: int, keys: int, dim: int = 64, split: int = 0, **more: Any
) -> Case:
    params = {"kv_len_per_split": split} if split else {}
    tag = f"split{split}" if split else ""
    return attention_case(_OP, dtype, (batch, heads, heads // group), 1, keys, dim, tag, params=params, **more)


def _all() -> list[Case]:
    # TileGym's own test, with one batch; group sizes 1, 4, 8.
    found = [
        _case("f16", 1, 32, group, keys, structural=keys in (119, 8192), quick=(group, keys) == (4, 119))
        for keys in (9, 119, 256, 8192)
        for group in (1, 4, 8)
    ]
    found += [
        _case("bf16", 2, 8, 2, 300),
        _case("bf16", 1, 16, 16, 129, dim=128, structural=False),
        _case("f16", 3, 6, 3, 1, structural=False),
        _case("f16", 1, 4, 1, 700, split=128, quick=True),
        _case("bf16", 2, 4, 2, 513, split=256, structural=False),
        _case("f16", 1, 4, 2, 257, split=128, dim=32, data="nan", structural=False),
    ]
    return found + [
        _case("f16", 1, 32, group, keys, dim=128, perf=True, structural=keys == 4096)
        for keys in (512, 1024, 2048, 4096, 8192, 16384, 31079)
        for group in (1, 4, 8)
    ]


class FmhaDecode(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(2e-3, 1e-3, "probabilities, partial results and result rounded to 11 bits; log-sum-exp fp32"),
        "bf16": Tolerance(8e-3, 8e-3, "probabilities, partial results and result rounded to 8 bits; log-sum-exp fp32"),
    }

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v and the scale, which the op takes by position."""
        return Call((*self.qkv(case, device, seed), 1 / math.sqrt(case.shape[5])), case.kwargs)


SUITE = FmhaDecode()
