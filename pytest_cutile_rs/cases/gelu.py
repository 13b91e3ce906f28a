# SPDX-License-Identifier: MIT
"""Parity of `gelu`, forward and backward; any shape and strides (TileGym flattens it as a view).

Ours has the true distribution function, in f32; TileGym a tanh polynomial, in the storage dtype. Hence the tolerances,
which both keep, and the error of ours, which is smaller.
"""

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
from pytest_cutile_rs.cases._build import options
from pytest_cutile_rs.cases._elementwise import bytes_per_element
from pytest_cutile_rs.cases._elementwise import data_cases
from pytest_cutile_rs.cases._elementwise import dtype_case
from pytest_cutile_rs.cases._elementwise import layout_cases
from pytest_cutile_rs.cases._elementwise import of_its_kind
from pytest_cutile_rs.cases._elementwise import offset_cases
from pytest_cutile_rs.cases._elementwise import size_cases
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._gelu import MODES
from pytest_cutile_rs.cases._gelu import TOLERANCES
from pytest_cutile_rs.cases._gelu import gelu
from pytest_cutile_rs.cases._tensors import tensor

_OP = "gelu"


def _case(dtype: str, shape: tuple[int, ...], mode: str, backward: bool = False, **more: Any) -> Case:
    params = {"approximate": mode, **({BACKWARD: True} if backward else {})}
    return case(_OP, dtype, shape, tag="tanh" if mode == "tanh" else "", params=params, **more)


def _tilegym() -> list[Case]:
    return [
        _case(dtype, (256, 2048), mode, backward, quick=(dtype, mode) == ("f16", "none"))
        for backward in (False, True)
        for mode in MODES
        for dtype in ("f16", "f32")
    ]


def _timed() -> list[Case]:
    """TileGym times none; the second shape is beyond the 2^24 elements at which its block grows."""
    found = [
        _case(dtype, shape, mode, perf=True)
        for shape in ((2048, 4096), (8192, 4096))
        for mode in MODES
        for dtype in ("f16", "bf16")
    ]
    return found + [_case("bf16", (8192, 4096), mode, True, perf=True) for mode in MODES]


def _special() -> list[Case]:
    tanh: dict[str, Any] = {"tag": "tanh", "params": {"approximate": "tanh"}}
    back: dict[str, Any] = {"params": {"approximate": "tanh", BACKWARD: True}, "tag": "tanh"}
    found = size_cases(_OP) + offset_cases(_OP) + offset_cases(_OP, (5, 77), **tanh)
    found += data_cases(_OP, ("nan", "inf", "overflow", "tiny", "wide"))
    found += data_cases(_OP, ("nan", "inf", "wide"), **tanh)
    found += [_case(dtype, (7, 129), mode, True, structural=False) for mode in MODES for dtype in DTYPES]
    found += layout_cases(_OP) + layout_cases(_OP, (33, 70), **back)
    found.append(dtype_case(_OP))
    unknown = "gelu: approximate is 'none' or 'tanh', got 'erf'"
    found.append(_case("f16", (4, 8), "none", raises=unknown, data="approximation", structural=False))
    return found + data_cases(_OP, ("nan", "wide", "overflow"), **back)


class Gelu(FormulaSuite):
    """See the module."""

    name = _OP
    module = "tilegym.ops.activation"
    cases = tuple([*_tilegym(), *_timed(), *_special()])
    differentiable = (0,)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {dtype: TOLERANCES["none", dtype] for dtype in DTYPES}
    nan_policy = "NaN and gelu(-inf) = -inf * 0 = NaN propagate; a slope is 0 or 1 far out, where TileGym's becomes NaN"
    rounding_policy = "fp32 with one rounding at the store; TileGym's forward in the storage dtype"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, and the gradient of the result in a backward case."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        kwargs: dict[str, Any] = options(case)
        if case.data == "approximation":
            kwargs["approximate"] = "erf"
        if case.kwargs.get(BACKWARD):
            kwargs[UPSTREAM] = tensor(case.shape, case.dtype, device, seed + 1)
        return Call((of_its_kind(case, x),), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """With erf, or its tanh approximation."""
        return gelu(call.args[0], str(case.kwargs.get("approximate", "none")))

    def torch(self, case: Case, call: Call) -> Any:
        """`torch.nn.functional.gelu`; with the gradient, `formula`."""
        import torch

        if UPSTREAM in call.kwargs:
            return super().torch(case, call)
        return torch.nn.functional.gelu(call.args[0], approximate=str(case.kwargs.get("approximate", "none")))

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """By approximation too."""
        return TOLERANCES[str(case.kwargs.get("approximate", "none")), case.dtype]

    def bytes_moved(self, case: Case) -> int:
        """One read and one write."""
        return bytes_per_element(case, 1, 1)

    def flops(self, case: Case) -> int:
        """Ten or so per element."""
        return 10 * math.prod(case.shape) * (3 if case.kwargs.get(BACKWARD) else 1)


SUITE = Gelu()
