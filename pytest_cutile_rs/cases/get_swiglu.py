# SPDX-License-Identifier: MIT
"""Parity of the function that `get_swiglu` returns, silu(a) * b, forward and backward; the shape is that of a and b."""

from __future__ import annotations

import math
from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._build import options
from pytest_cutile_rs.cases._elementwise import data_cases
from pytest_cutile_rs.cases._elementwise import dtype_case
from pytest_cutile_rs.cases._elementwise import layout_cases
from pytest_cutile_rs.cases._elementwise import of_its_kind
from pytest_cutile_rs.cases._elementwise import offset_cases
from pytest_cutile_rs.cases._elementwise import size_cases
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._formula import invoke_made
from pytest_cutile_rs.cases._swiglu import TOLERANCES
from pytest_cutile_rs.cases._swiglu import of_the_gate
from pytest_cutile_rs.cases._swiglu import swiglu
from pytest_cutile_rs.cases._tensors import tensor

_OP = "get_swiglu"
_BACK: dict[str, Any] = {"params": {BACKWARD: True}}


def _tilegym() -> list[Case]:
    regular = [(2, 512, 1024), (4, 1024, 2048), (8, 2048, 4096)]
    irregular = [(7, 100, 1000), (13, 333, 1500), (8, 256, 3000), (8, 100, 512), (8, 333, 1024), (13, 256, 1024)]
    found = cases(_OP, ("f32",), [*regular, *irregular])
    found += cases(_OP, ("f32",), [(2, 64, 512), (4, 128, 1024), (7, 100, 1000), (13, 33, 1500)], **_BACK)
    return [*found, case(_OP, "f16", (2, 64, 512), quick=True, **_BACK)]


def _refusals() -> list[Case]:
    long = r"(?i)get_swiglu.*a .*(extent|stride).*2147483647"
    return [
        case(_OP, "f16", (2, 2**31), raises=long, structural=False),
        case(_OP, "f16", (4, 8), data="shapes", raises=r"a has shape \(4, 8\), b \(4, 4\)", structural=False),
        case(_OP, "f16", (4, 8), data="dtypes", raises="a has dtype torch.float16, b torch.float32", structural=False),
        dtype_case(_OP),
    ]


def _timed() -> list[Case]:
    """TileGym's one perf shape, and those of its benchmark that are not launch-bound."""
    found = [case(_OP, "f32", (8, 1, 4096), perf=True, quick=True)]
    found += cases(_OP, DTYPES, [(1, 4096, 4096), (4, 4096, 8192)], perf=True)
    found += cases(_OP, ("f32", "bf16"), [(1, 4096, 4096), (4, 4096, 8192)], perf=True, **_BACK)
    return [*found, case(_OP, "bf16", (4096, 8192), layout="halves", perf=True)]


def _more() -> list[Case]:
    found = size_cases(_OP) + offset_cases(_OP)
    # TileGym's backward pass divides the columns by SMs / rows; it fails (division by zero) for a tensor with fewer
    # elements than that, the first two on 132 SMs.
    found += cases(_OP, ("bf16",), [(1, 1), (3, 17), (1, 1000), (17, 9), (140, 33)], structural=False, **_BACK)
    found += [case(_OP, dtype, (5, 129), quick=dtype == "bf16", **_BACK) for dtype in DTYPES]
    found += [
        case(_OP, dtype, (64, 500), layout=layout, structural=dtype == "f16")
        for layout in ("transposed", "strided", "padded", "padded-odd", "every-other-row", "expanded")
        for dtype in DTYPES
    ]
    found += [case(_OP, dtype, (64, 500), layout="halves", quick=dtype == "f32", **_BACK) for dtype in DTYPES]
    found += layout_cases(_OP, (33, 70), **_BACK)
    return found + data_cases(_OP, ("nan", "inf", "overflow", "wide", "tiny", "signed-zeros"))


class GetSwiglu(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_more(), *_refusals()])
    differentiable = (0, 1)
    tolerance = TOLERANCES
    nan_policy = "NaN, silu(-inf) = -inf * 0 and inf * 0 propagate as NaN; a product beyond the dtype is inf"
    rounding_policy = "fp32, silu rounded to the storage dtype before the product; the gradients are rounded once"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """a, b and the gradient of the result in a backward case; layout ``"halves"``: of one tensor."""
        if case.layout == "halves":
            *lead, cols = case.shape
            a, b = tensor((*lead, 2 * cols), case.dtype, device, seed, data=case.data).chunk(2, -1)
        else:
            a, b = (
                tensor(
                    case.shape, case.dtype, device, seed + n, layout=case.layout, data=case.data if n == 0 else other
                )
                for n, other in enumerate(["", "empty" if case.data == "empty" else "randn"])
            )
        if case.data == "shapes":
            b = b[:, : case.shape[1] // 2]
        if case.data == "dtypes":
            b = b.float()
        a, b = (of_its_kind(case, one) for one in (a, b))
        kwargs: dict[str, Any] = options(case)
        if case.kwargs.get(BACKWARD):
            kwargs[UPSTREAM] = tensor(case.shape, case.dtype, device, seed + 2)
        return Call((a, b), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """silu(a) * b."""
        return swiglu(*call.args)

    def invoke(self, call: Call, backend: str | None) -> Any:
        """Calls what the factory returns."""
        return invoke_made(self, call, backend)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Another one for the gradient of a."""
        base = self.tolerance[case.dtype]
        return of_the_gate(base) if output == 1 else base

    def bytes_moved(self, case: Case) -> int:
        """Two reads and one write; backward three reads and two writes more."""
        return (8 if case.kwargs.get(BACKWARD) else 3) * math.prod(case.shape) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Five per element, about as many per gradient."""
        return (15 if case.kwargs.get(BACKWARD) else 5) * math.prod(case.shape)


SUITE = GetSwiglu()
