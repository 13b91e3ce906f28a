# SPDX-License-Identifier: MIT
"""Parity of `mhc_sinkhorn`: in y, in place, each row's n x n block made doubly stochastic in 20 rounds.

The shape is (rows, n). y holds 2n coefficients that stay and then the block; every case judges all of y. n is a power
of two. TileGym works on a copy of a y that is not contiguous and returns that; so no such case is here.
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
from pytest_cutile_rs.cases._tensors import tensor

_OP = "mhc_sinkhorn"
_ROUNDS = 20


def _listed() -> list[Case]:
    found = [case(_OP, "f32", (256, n), quick=True) for n in (4, 8)]
    found += [case(_OP, "f32", (8192, n), perf=True) for n in (4, 8)]
    odd = [(1, 1), (1, 4), (17, 2), (3, 16), (33, 8), (129, 4), (2, 32)]
    found += [
        case(_OP, dtype, shape, quick=(dtype, shape[1]) == ("f16", 2)) for shape in odd for dtype in ("f32", "f16")
    ]
    found += cases(_OP, ("bf16",), odd, structural=False)
    found += [case(_OP, "f32", (5, 4), tag="wide-y", params={"spare": 3}), case(_OP, "f32", (16, 4), layout="offset")]
    found += cases(_OP, ("f32",), [(0, 4)], structural=False)
    found += cases(_OP, ("f32",), [(4, 3), (4, 64)], raises="mhc_sinkhorn: n is .* a power of two", structural=False)
    kinds = ("nan", "constant", "positive", "signed-zeros", "tiny")
    return found + [case(_OP, dtype, (16, 4), data=data, structural=False) for data in kinds for dtype in DTYPES]


class MhcSinkhorn(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    in_place = (0,)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-5, 1e-8, "twenty rounds contract the rounding of exp2 and of the sums; TileGym's own"),
        "f16": Tolerance(1e-3, 1e-7, "in fp32, one rounding to 11 bits, doubled"),
        "bf16": Tolerance(8e-3, 1e-8, "in fp32, one rounding to 8 bits, doubled"),
    }
    nan_policy = "a NaN makes its whole block NaN"
    rounding_policy = "fp32, one rounding at the store"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """y and n."""
        rows, n = case.shape
        columns = n * n + 2 * n + int(str(case.kwargs.get("spare", 0)))
        return Call((tensor((rows, columns), case.dtype, device, seed, layout=case.layout, data=case.data), n))

    def formula(self, case: Case, call: Call) -> Any:
        """Exponentials, then row sums and column sums divided out in turn."""
        y, n = call.args
        result = y.clone()
        block = result[:, 2 * n : 2 * n + n * n].reshape(-1, n, n).exp()
        for _ in range(_ROUNDS):
            block = block / block.sum(dim=2, keepdim=True)
            block = block / block.sum(dim=1, keepdim=True)
        result[:, 2 * n : 2 * n + n * n] = block.reshape(-1, n * n)
        return result

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """y."""
        return (call.args[0],)

    def bytes_moved(self, case: Case) -> int:
        """The block read and written."""
        rows, n = case.shape
        return 2 * rows * n * n * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Two sums and two quotients per element and round."""
        rows, n = case.shape
        return 4 * _ROUNDS * rows * n * n


SUITE = MhcSinkhorn()
