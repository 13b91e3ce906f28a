# SPDX-License-Identifier: MIT
"""Parity of `mhc_apply_residual`: n residual streams mixed and added to, by coefficients that lie in y.

The shape is (rows, n, C). y holds 2n + n*n coefficients a row: n of no use here, n for f_out, n*n for the streams.
TileGym's kernel needs n a power of two and C a multiple of 1024 (it leaves the rest of each stream unwritten); ours
takes any (the cases "any").
"""

from __future__ import annotations

import math
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
from pytest_cutile_rs.cases._tensors import tensor

_OP = "mhc_apply_residual"
_ANY = ((3, 4, 100), (2, 3, 1000), (4, 1, 1), (1, 6, 1030), (2, 12, 33))


def _listed() -> list[Case]:
    shapes: list[tuple[int, ...]] = [(128, 2, 1024), (128, 4, 1024), (64, 8, 2048)]
    found = [case(_OP, "bf16", shape, quick=shape[1] == 4) for shape in shapes]
    found += [case(_OP, "bf16", (8192, n, 2048), perf=True) for n in (4, 8)]
    odd = [(1, 1, 1024), (1, 2, 1024), (3, 4, 1024), (7, 8, 1024), (2, 16, 2048)]
    found += [case(_OP, dtype, shape, quick=dtype == "f16" and shape[0] in (3, 7)) for shape in odd for dtype in DTYPES]
    found += [case(_OP, dtype, (5, 4, 1024), tag="wide-y", params={"spare": 3}, structural=False) for dtype in DTYPES]
    found += [
        case(_OP, dtype, (5, 4, 1024), layout=layout, structural=False)
        for layout in ("padded-odd", "offset", "transposed")
        for dtype in DTYPES
    ]
    found += [case(_OP, dtype, shape, tag="any", structural=False) for shape in _ANY for dtype in DTYPES]
    found += cases(_OP, ("f32",), [(0, 4, 1024)], structural=False)
    found += cases(_OP, ("f32",), [(2, 65, 16)], raises="mhc_apply_residual: n is 65", structural=False)
    return found + [
        case(_OP, dtype, (8, 4, 1024), data=data, structural=False)
        for data in ("nan", "inf", "wide")
        for dtype in DTYPES
    ]


class MhcApplyResidual(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-5, 1e-5, "n + 1 products summed in fp32, which may cancel"),
        "f16": Tolerance(1e-3, 1e-5, "summed in fp32, one rounding to 11 bits, doubled"),
        "bf16": Tolerance(8e-3, 1e-5, "summed in fp32, one rounding to 8 bits, doubled"),
    }
    nan_policy = "NaN and inf reach the same column of every stream of their row"
    rounding_policy = "fp32, one rounding at the store"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, f_out, the coefficients in fp32, n."""
        rows, n, width = case.shape
        plain = "empty" if case.data == "empty" else "randn"
        spare = int(str(case.kwargs.get("spare", 0)))
        x = tensor((rows, n * width), case.dtype, device, seed, layout=case.layout, data=case.data)
        f_out = tensor((rows, width), case.dtype, device, seed + 1, data=plain)
        y = tensor((rows, n * n + 2 * n + spare), "f32", device, seed + 2, data=plain)
        return Call((x, f_out, y, n))

    def formula(self, case: Case, call: Call) -> Any:
        """The streams times their matrix, plus f_out times its vector."""
        x, f_out, y, n = call.args
        rows, width = f_out.shape
        matrix = y[:, 2 * n : 2 * n + n * n].reshape(rows, n, n, 1)
        vector = y[:, n : 2 * n].reshape(rows, n, 1)
        # Not as a matrix product, which would spread a NaN's row over a zero coefficient's.
        mixed = (matrix * x.reshape(rows, 1, n, width)).sum(dim=2)
        return (mixed + vector * f_out.unsqueeze(1)).reshape(rows, n * width).to(x.dtype)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Wide data, thirty times as large, cancel to thirty times the error."""
        base = self.tolerance[case.dtype]
        return Tolerance(base.rtol, base.atol * (30.0 if case.data == "wide" else 1.0), base.why)

    def bytes_moved(self, case: Case) -> int:
        """Streams read and written, f_out and the coefficients read."""
        rows, n, width = case.shape
        return rows * ((2 * n + 1) * width * ITEMSIZE[case.dtype] + (n * n + 2 * n) * 4)

    def flops(self, case: Case) -> int:
        """n + 1 products and sums per element of a stream."""
        return 2 * (case.shape[1] + 1) * math.prod(case.shape)


SUITE = MhcApplyResidual()
