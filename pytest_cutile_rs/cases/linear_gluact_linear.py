# SPDX-License-Identifier: MIT
"""Parity of `linear_gluact_linear`, forward only: (act(x @ a^T) * (x @ b^T)) @ c^T.

The shape is (rows, K, inner, outer). TileGym loads its operands without padding, so that K is a multiple of its tile's
(at most 128); everything is contiguous (it asserts that). It calls its own matmul for the second product.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._gelu import gelu
from pytest_cutile_rs.cases._tensors import scaled
from pytest_cutile_rs.cases._tensors import tensor

_OP = "linear_gluact_linear"
_DTYPES = ("f16", "bf16")
_ACTS = ("silu", "relu", "gelu")


def _listed() -> list[Case]:
    """TileGym has no test of this op; the shapes are ours."""
    found = [
        case(_OP, dtype, shape, tag=act, params={"act_type": act}, quick=(dtype, shape[0]) == ("f16", 64))
        for shape in ((64, 128, 128, 64), (256, 256, 512, 256))
        for act in _ACTS
        for dtype in _DTYPES
    ]
    found += [
        case(_OP, dtype, (4096, 4096, 11008, 4096), tag="silu", params={"act_type": "silu"}, perf=True)
        for dtype in _DTYPES
    ]
    odd = [(1, 128, 128, 128), (3, 128, 100, 17), (130, 128, 33, 1), (2, 5, 256, 64, 72)]
    found += cases(_OP, _DTYPES, odd, structural=False)
    found += cases(_OP, _DTYPES, [(0, 128, 64, 64)], structural=False)
    found += cases(_OP, _DTYPES, [(33, 128, 64, 64)], layout="offset", structural=False)
    return found + [
        case(_OP, dtype, (32, 128, 64, 64), tag=act, params={"act_type": act}, data=data, structural=False)
        for data in ("nan", "positive", "alternating")
        for act in _ACTS
        for dtype in _DTYPES
    ]


class LinearGluactLinear(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(2e-3, 3e-3, "fp32 sums; the gated product is rounded to 11 bits, and so is the result"),
        "bf16": Tolerance(1e-2, 2e-2, "fp32 sums; the gated product is rounded to 8 bits, and so is the result"),
    }
    nan_policy = "a NaN in x makes its row NaN"
    rounding_policy = "fp32 sums and activation; the gated product and the result are rounded to the storage dtype"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x and the three weights."""
        *lead, width, inner, outer = case.shape
        plain = "empty" if case.data == "empty" else "randn"
        x = tensor((*lead, width), case.dtype, device, seed, layout=case.layout, data=case.data)
        shapes = ((inner, width), (inner, width), (outer, inner))
        weights = [
            scaled(tensor(shape, case.dtype, device, seed + n + 1, data=plain), shape[1] ** -0.5)
            for n, shape in enumerate(shapes)
        ]
        return Call((x, *weights), case.kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """Two products, the activation of one, a third product."""
        import torch

        x, gate, up, down = call.args
        act, open_ = case.kwargs.get("act_type", "silu"), x @ gate.t()
        if act == "gelu":
            opened = gelu(open_, "tanh")
        else:
            opened = torch.relu(open_) if act == "relu" else open_ * torch.sigmoid(open_)
        return opened * (x @ up.t()) @ down.t()

    def bytes_moved(self, case: Case) -> int:
        """x and the weights read; three inner tensors written and one read; the result written."""
        *lead, width, inner, outer = case.shape
        rows = math.prod(lead)
        return (rows * (width + 4 * inner + outer) + 2 * width * inner + inner * outer) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Three products."""
        *lead, width, inner, outer = case.shape
        return 2 * math.prod(lead) * inner * (2 * width + outer)


SUITE = LinearGluactLinear()
