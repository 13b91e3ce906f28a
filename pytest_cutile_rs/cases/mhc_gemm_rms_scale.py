# SPDX-License-Identifier: MIT
"""Parity of `mhc_gemm_rms_scale`: x @ w over the root mean square of x, scaled, biased and partly through sigmoids.

The shape is (M, K, n); w has n*n + 2n columns, in three groups: sigmoid, twice sigmoid, as they are. The op returns the
coefficients and each row's root mean square, both fp32. TileGym tunes on every call; where M is no multiple of its tile
and its tuner chooses to split K, its partial sums run beyond their buffer and its own result is wrong: with tiles of 64
and two splits, the rows beyond 71 of (100, 256, 4) are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import scaled
from pytest_cutile_rs.cases._tensors import tensor

_OP = "mhc_gemm_rms_scale"
_ALPHAS = (0.75, 1.25, 0.5)
_ROOT = Tolerance(1e-5, 1e-6, "squares summed in fp32 in another order")


def _listed() -> list[Case]:
    found = [case(_OP, "bf16", shape, quick=True) for shape in ((128, 1000, 8), (128, 1024, 4), (128, 1024, 8))]
    found += [case(_OP, "bf16", (8192, 8192, n), perf=True) for n in (4, 8)]
    odd = [(1, 64, 1), (64, 1, 4), (1, 1, 2), (65, 130, 2), (200, 333, 3), (33, 1024, 16)]
    found += [case(_OP, dtype, shape, structural=shape[0] == 65) for shape in odd for dtype in DTYPES]
    found += [
        case(_OP, dtype, (64, 100, 4), layout=layout, structural=False)
        for layout in ("padded", "padded-odd", "offset", "transposed", "every-other-row")
        for dtype in DTYPES
    ]
    found += cases(_OP, ("f32",), [(0, 64, 4)], structural=False)
    return found + [
        case(_OP, dtype, (32, 128, 4), data=data, structural=False)
        for data in ("nan", "inf", "wide", "constant")
        for dtype in DTYPES
    ]


class MhcGemmRmsScale(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        dtype: Tolerance(2e-3, 3e-3, "w (and an fp32 x) is rounded to tf32, 11 bits; sums of around one")
        for dtype in DTYPES
    }
    nan_policy = "a NaN or inf in a row of x makes the row NaN, its root mean square NaN or inf"
    rounding_policy = "tf32 products, fp32 sums; both results are fp32"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, w in fp32, n, the three factors, the bias in fp32."""
        rows, inner, n = case.shape
        plain = "empty" if case.data == "empty" else "randn"
        columns = n * n + 2 * n
        x = tensor((rows, inner), case.dtype, device, seed, layout=case.layout, data=case.data)
        w = scaled(tensor((inner, columns), "f32", device, seed + 1, data=plain), inner**-0.5)
        bias = tensor((columns,), "f32", device, seed + 2, data=plain)
        return Call((x, w, n, *_ALPHAS, bias))

    def formula(self, case: Case, call: Call) -> Any:
        """The coefficients and the root mean squares."""
        import torch

        x, w, n, pre, post, residual, bias = call.args
        root = (x * x).mean(dim=1, keepdim=True).sqrt()
        factors = [pre] * n + [post] * n + [residual] * (n * n)
        linear = (x.to(w.dtype) @ w) * torch.tensor(factors, dtype=w.dtype, device=w.device) / root + bias
        open_, twice, plain = linear.split([n, n, n * n], dim=1)
        return torch.cat((open_.sigmoid(), 2.0 * twice.sigmoid(), plain), dim=1), root

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """Both fp32."""
        return "f32"

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Of the coefficients, or of the root mean squares."""
        return _ROOT if output else self.tolerance[case.dtype]

    def bytes_moved(self, case: Case) -> int:
        """x and w read, the coefficients written."""
        rows, inner, n = case.shape
        columns = n * n + 2 * n
        return rows * inner * ITEMSIZE[case.dtype] + (inner + rows) * columns * 4

    def flops(self, case: Case) -> int:
        """The product, and the squares."""
        rows, inner, n = case.shape
        return 2 * rows * inner * (n * n + 2 * n + 1)


SUITE = MhcGemmRmsScale()
