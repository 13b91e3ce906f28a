# SPDX-License-Identifier: MIT
"""Parity of `relu`, forward only; any shape and strides (TileGym asserts a contiguous tensor)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._elementwise import bytes_per_element
from pytest_cutile_rs.cases._elementwise import data_cases
from pytest_cutile_rs.cases._elementwise import dtype_case
from pytest_cutile_rs.cases._elementwise import layout_cases
from pytest_cutile_rs.cases._elementwise import of_its_kind
from pytest_cutile_rs.cases._elementwise import offset_cases
from pytest_cutile_rs.cases._elementwise import size_cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import tensor

_OP = "relu"
_EXACT = "the result is an input or zero"


def _tilegym() -> list[Case]:
    found = [case(_OP, "f16", (256, 64), quick=True), *cases(_OP, ("f16",), [(256, 256), (256, 32768)])]
    return [*found, case(_OP, "f32", (256, 2048), quick=True)]


def _timed() -> list[Case]:
    """TileGym times none; these are ours."""
    return cases(_OP, ("f16", "f32"), [(4096, 4096), (65536, 1024)], perf=True)


class Relu(FormulaSuite):
    """See the module."""

    name = _OP
    module = "tilegym.ops.activation"
    cases = tuple(
        [
            *_tilegym(),
            *_timed(),
            *size_cases(_OP),
            *offset_cases(_OP),
            *layout_cases(_OP),
            dtype_case(_OP),
            *data_cases(_OP, ("nan", "inf", "overflow", "tiny", "signed-zeros")),
        ]
    )
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        dtype: Tolerance(0.0, 0.0, _EXACT) for dtype in ("f32", "f16", "bf16")
    }
    nan_policy = "max(x, 0) returns the number beside a NaN, so NaN becomes 0 (torch.relu keeps it)"
    rounding_policy = "none: every result is representable"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        return Call((of_its_kind(case, x),))

    def formula(self, case: Case, call: Call) -> Any:
        """Zero wherever x is not above zero."""
        import torch

        (x,) = call.args
        return torch.where(x > 0, x, torch.zeros_like(x))

    def torch(self, case: Case, call: Call) -> Any:
        """`torch.relu`, which differs in NaN alone."""
        import torch

        return torch.relu(call.args[0])

    def bytes_moved(self, case: Case) -> int:
        """One read and one write."""
        return bytes_per_element(case, 1, 1)

    def flops(self, case: Case) -> int:
        """One maximum per element."""
        return math.prod(case.shape)


SUITE = Relu()
