# SPDX-License-Identifier: MIT
"""Parity of `transpose` of a 2-D tensor into contiguous memory or ``out=``, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._elementwise import bytes_per_element
from pytest_cutile_rs.cases._elementwise import data_cases
from pytest_cutile_rs.cases._elementwise import size_cases
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import tensor

_OP = "transpose"
_LAYOUTS = ("transposed", "strided", "padded", "padded-odd", "offset", "expanded", "every-other-row")
_I32 = r"transpose: inp has (extent|stride) \d+ .*32 bits"
_SIZES = ((1, 1), (1, 1000), (300, 1), (3, 17), (64, 64), (65, 63), (129, 200))


def _listed() -> list[Case]:
    """TileGym has no test of this op; the shapes are ours, with 4096 where its tile grows."""
    found = cases(_OP, ("f16",), [(128, 256)], quick=True) + cases(_OP, ("f32", "bf16"), [(128, 256), (1000, 333)])
    found += cases(_OP, DTYPES, [(4096, 4096), (8192, 2048)], perf=True)
    found += size_cases(_OP, _SIZES)[:-1]
    found += [case(_OP, dtype, (64, 100), layout=name, structural=False) for name in _LAYOUTS for dtype in DTYPES]
    found += [case(_OP, dtype, (96, 130), tag="out", params={"out": True}, quick=dtype == "f32") for dtype in DTYPES]
    found += [case(_OP, dtype, (33, 70), params={BACKWARD: True}, structural=False) for dtype in DTYPES]
    found += cases(_OP, ("f16",), [(2**31, 8), (8, 2**31)], raises=_I32, structural=False)
    return found + data_cases(_OP, ("nan", "inf", "overflow", "signed-zeros"), (20, 70))


class Transpose(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    differentiable = (0,)
    in_place = ("out",)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {dtype: Tolerance(0.0, 0.0, "a copy") for dtype in DTYPES}
    nan_policy = "copied"
    rounding_policy = "none: a copy"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """The matrix; ``out`` when the case asks for it."""
        rows, cols = case.shape
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        kwargs: dict[str, Any] = {}
        if case.kwargs.get("out"):
            kwargs["out"] = x.new_empty((cols, rows))
        if case.kwargs.get(BACKWARD):
            kwargs[UPSTREAM] = tensor((cols, rows), case.dtype, device, seed + 1)
        return Call((x,), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """The transpose, contiguous."""
        return call.args[0].t().contiguous()

    def bytes_moved(self, case: Case) -> int:
        """One read and one write."""
        return bytes_per_element(case, 1, 1)

    def flops(self, case: Case) -> int:
        """None; one per element stands for the work of moving it."""
        return math.prod(case.shape)


SUITE = Transpose()
