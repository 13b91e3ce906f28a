# SPDX-License-Identifier: MIT
"""Parity of `mla_decoding`, latent attention of one query; the shape is (batch, heads, keys, latent, embedding size).

Outputs are the result and the logarithm, base 2, of each head's sum of exponentials. TileGym's own test calls the
implementation past the dispatcher; here it is called as every op.
"""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._latent import LatentSuite

_OP = "mla_decoding"
_LSE = Tolerance(1e-4, 1e-3, "of fp32 sums whose terms round at 2^-22; log2 is the approximate one")


def _case(dtype: str, batch: int, heads: int, keys: int, dim: int = 512, pe: int = 64, **more: Any) -> Case:
    tags = [more.get("data", "")]
    name = "-".join([dtype, f"{batch}x{heads}x{keys}x{dim}x{pe}", *(tag for tag in tags if tag)])
    return Case(_OP, name, dtype, (batch, heads, keys, dim, pe), **more)


def _all() -> list[Case]:
    # TileGym's own test is f16 (2, 32, 1024).
    return [
        _case("f16", 1, 16, 65, quick=True),
        _case("f16", 2, 32, 1024),
        _case("bf16", 1, 16, 129),
        _case("f16", 1, 8, 64, 128, 64, quick=True),
        _case("f16", 2, 20, 100, 128, 32, structural=False),
        _case("bf16", 3, 16, 1, 128, 64, structural=False),
        _case("f16", 1, 16, 200, 128, data="nan", structural=False),
        _case("f16", 1, 16, 200, 128, data="wide", structural=False),
    ] + [
        _case("f16", batch, 16, keys, perf=True, structural=False)
        for batch in (1, 128, 1024)
        for keys in (1024, 2048, 8192)
    ]


class MlaDecoding(LatentSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        return self.attention(case, call)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The result and the logarithms."""
        return tuple(result)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The logarithms are f32."""
        return "f32" if output else case.dtype

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """That of the logarithms is their own."""
        return _LSE if output else self.tolerance[case.dtype]


SUITE = MlaDecoding()
