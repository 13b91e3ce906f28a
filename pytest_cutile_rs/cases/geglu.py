# SPDX-License-Identifier: MIT
"""Parity of `geglu`, a * gelu(b) of the halves of one axis, forward and backward; the shape is the input's.

Ours has the true distribution function, in f32; TileGym a tanh polynomial, in the storage dtype. Hence the tolerances,
which both keep, and the error of ours, which is smaller.
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
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import options
from pytest_cutile_rs.cases._elementwise import dtype_case
from pytest_cutile_rs.cases._elementwise import layout_cases
from pytest_cutile_rs.cases._elementwise import of_its_kind
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._gelu import MODES
from pytest_cutile_rs.cases._gelu import TOLERANCES
from pytest_cutile_rs.cases._gelu import gelu
from pytest_cutile_rs.cases._tensors import tensor

_OP = "geglu"


def _case(
    dtype: str, shape: tuple[int, ...], dim: int = -1, mode: str = "none", back: bool = True, **more: Any
) -> Case:
    params = {"dim": dim, "approximate": mode, **({BACKWARD: True} if back else {})}
    tag = "-".join([f"dim{dim % len(shape)}", *(["tanh"] if mode == "tanh" else [])])
    return case(_OP, dtype, shape, tag=tag, params=params, **more)


def _tilegym() -> list[Case]:
    """Every axis of four shapes; TileGym looks at the gradient in each."""
    shapes: list[tuple[int, ...]] = [(4,), (16, 4), (64, 16, 4), (256, 64, 16, 4)]
    return [
        _case(dtype, shape, dim, mode, quick=(dtype, shape, dim) == ("f16", (64, 16, 4), 1))
        for shape in shapes
        for dim in range(len(shape))
        for mode in MODES
        for dtype in ("f32", "f16")
    ]


def _timed() -> list[Case]:
    """TileGym's perf shape, and ours: rows as long as a layer's, halves in front."""
    found = [_case("f16", (256, 64, 16, 128), 3, mode, perf=True) for mode in MODES]
    found += [_case(dtype, (8192, 16384), mode=mode, perf=True) for mode in MODES for dtype in ("f32", "bf16")]
    found += [_case("f16", (8192, 16384), mode=mode, back=False, perf=True) for mode in MODES]
    return [*found, _case("f16", (2, 4096, 4096), 0, "tanh", perf=True)]


def _more() -> list[Case]:
    odd = [((1, 2), 1), ((2, 1), 0), ((3, 34), 1), ((1, 2000), 1), ((300, 2), 1), ((2, 7, 5), 0), ((3, 26, 7), 1)]
    found = [_case(dtype, shape, dim, structural=shape == (3, 34)) for shape, dim in odd for dtype in DTYPES]
    found += [_case("f32", shape, dim, back=False, structural=False) for shape, dim in (((0, 8), 1), ((4, 0), 1))]
    found += [_case(dtype, (16, 130), layout="offset", quick=dtype == "bf16") for dtype in DTYPES]
    found += [
        _case(dtype, (16, 130), mode=mode, data=data, back=False, structural=False)
        for data in ("nan", "inf", "wide")
        for mode in MODES
        for dtype in DTYPES
    ]
    found += layout_cases(_OP, (16, 130), params={"dim": 1, "approximate": "none", BACKWARD: True}, tag="dim1")
    found += layout_cases(_OP, (4, 6, 26), params={"dim": -2, "approximate": "tanh"}, tag="dim1-tanh")
    return found


def _refusals() -> list[Case]:
    odd = r"geglu: axis 1 must hold both halves \(an even extent\), got shape \(6, 7\)"
    long = r"(?i)geglu.*input .*(extent|stride).*2147483647"
    unknown = "geglu: approximate is 'none' or 'tanh', got 'erf'"
    return [
        _case("f16", (6, 7), back=False, raises=odd, structural=False),
        _case("f16", (2, 2**32), back=False, raises=long, structural=False),
        _case("f16", (6, 8), back=False, raises=unknown, data="approximation", structural=False),
        dtype_case(_OP, params={"dim": 1, "approximate": "none"}),
    ]


class Geglu(FormulaSuite):
    """See the module."""

    name = _OP
    module = "tilegym.ops.activation"
    cases = tuple([*_tilegym(), *_timed(), *_more(), *_refusals()])
    differentiable = (0,)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {dtype: TOLERANCES["none", dtype] for dtype in DTYPES}
    nan_policy = "NaN, and inf times zero, propagate"
    rounding_policy = "fp32 with one rounding at the store; both of TileGym's passes in the storage dtype"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, and the gradient of the result in a backward case."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        kwargs: dict[str, Any] = options(case)
        if case.data == "approximation":
            kwargs["approximate"] = "erf"
        if case.kwargs.get(BACKWARD):
            kwargs[UPSTREAM] = tensor(self._result(case), case.dtype, device, seed + 1)
        return Call((of_its_kind(case, x),), kwargs)

    @staticmethod
    def _result(case: Case) -> tuple[int, ...]:
        shape = list(case.shape)
        shape[int(str(case.kwargs["dim"])) % len(shape)] //= 2
        return tuple(shape)

    def formula(self, case: Case, call: Call) -> Any:
        """The first half times gelu of the second."""
        a, b = call.args[0].chunk(2, dim=case.kwargs["dim"])
        return a * gelu(b, str(case.kwargs["approximate"]))

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Twice gelu's: the result and both gradients are its errors times one or two factors around one.

        Of a million elements and more, some have factors of five and six: where the gradient crosses zero, bf16's steps
        of 2^-8 times two such factors are left (0.055 in 67 million elements).
        """
        base = TOLERANCES[str(case.kwargs["approximate"]), case.dtype]
        scale = 30.0 if case.data == "wide" else 1.0
        limit = math.inf if case.data == "wide" else 1e-2
        if math.prod(case.shape) >= 2**20:
            limit = max(limit, 8e-2 if case.dtype == "bf16" else 2e-2)
        return Tolerance(min(2 * base.rtol, 1e-2), min(4 * scale * base.atol, limit), f"{base.why}; times its factors")

    def bytes_moved(self, case: Case) -> int:
        """The input read, the result written; backward the same again, the gradient read and one written."""
        forward = 3 * math.prod(self._result(case))
        return (forward + (5 * math.prod(self._result(case)) if case.kwargs.get(BACKWARD) else 0)) * ITEMSIZE[
            case.dtype
        ]

    def flops(self, case: Case) -> int:
        """Ten or so per element of the result, twice as many backward."""
        return 10 * math.prod(self._result(case)) * (3 if case.kwargs.get(BACKWARD) else 1)


SUITE = Geglu()
