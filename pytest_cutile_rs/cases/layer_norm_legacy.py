# SPDX-License-Identifier: MIT
"""Parity of `layer_norm_legacy` over the last axis, forward only.

For a permuted input of rank 3 and more TileGym writes to a copy of its output that it then drops; rows of more than 64
KiB and of no columns it refuses. In those cases its own error is no measure.
"""

from __future__ import annotations

from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._norms import EPS
from pytest_cutile_rs.cases._norms import I32
from pytest_cutile_rs.cases._norms import TOLERANCES
from pytest_cutile_rs.cases._norms import LayerNormSuite
from pytest_cutile_rs.cases._norms import moments
from pytest_cutile_rs.cases._norms import tolerance_of
from pytest_cutile_rs.cases._norms import weight_and_bias
from pytest_cutile_rs.cases._tensors import tensor

_OP = "layer_norm_legacy"
_LAYOUTS = ("transposed", "strided", "padded", "padded-odd", "offset", "expanded", "every-other-row")


def _tilegym() -> list[Case]:
    return [
        case(
            _OP,
            dtype,
            shape,
            tag=f"shift{shift:g}",
            params={"weight_shift": shift},
            quick=(dtype, shape) == ("f16", (256, 256)),
        )
        for shape in ((9, 9), (256, 256))
        for shift in (0.0, 1.0)
        for dtype in ("f16", "f32")
    ]


def _timed() -> list[Case]:
    found = cases(_OP, ("f16",), [(4096, 32 << n) for n in range(10)], perf=True)
    return found + cases(_OP, ("bf16",), [(4096, 256 << n) for n in range(7)], perf=True)


def _more() -> list[Case]:
    found = cases(_OP, DTYPES, [(1, 1), (1, 1000), (300, 1), (3, 17), (2, 1023), (9, 1025), (2, 3, 4, 65)])
    found += [case(_OP, "bf16", (33, 130), tag="shift1", params={"weight_shift": 1.0}, quick=True)]
    found += cases(_OP, ("f32",), [(2, 16384)])
    found += [case(_OP, "f16", (64, 500), layout=layout, structural=False) for layout in _LAYOUTS]
    found += cases(_OP, ("bf16",), [(3, 40000)])  # read twice
    found += cases(_OP, ("f16",), [(5, 5000), (3, 9001)])  # in two tiles
    found += [case(_OP, "f16", (2, 8, 24), layout="transposed", structural=False)]
    found += cases(_OP, ("f32",), [(0, 128), (8, 0)], structural=False)
    found += cases(_OP, ("f16",), [(2**31, 8), (2, 2**31)], raises=I32, structural=False)
    found += [
        case(_OP, dtype, (16, 130), data=data, structural=False)
        for data in ("nan", "inf", "constant", "tiny", "wide")
        for dtype in DTYPES
    ]
    # f32 would lose its mean's last bits, the other two's squares are beyond fp32.
    found += [case(_OP, dtype, (16, 130), data="shifted", structural=False) for dtype in ("f16", "bf16")]
    return [*found, case(_OP, "f16", (16, 130), data="overflow", structural=False)]


class LayerNormLegacy(LayerNormSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_more()])
    tolerance = TOLERANCES
    nan_policy = "a NaN or inf makes its whole row NaN"
    rounding_policy = "fp32, one rounding at the store; TileGym rounds weight + weight_shift to the storage dtype too"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, its normalised shape, weight, bias, eps."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        columns = case.shape[-1:]
        return Call((x, columns, *weight_and_bias(case, columns, device, seed), EPS), case.kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """See `_norms`."""
        x, _, weight, bias, eps = call.args
        mean, rstd = moments(x, (-1,), eps)
        return (x - mean) * rstd * (weight + call.kwargs.get("weight_shift", 0.0)) + bias

    def torch(self, case: Case, call: Call) -> Any:
        """`torch.nn.functional.layer_norm`."""
        import torch

        x, columns, weight, bias, eps = call.args
        shift = call.kwargs.get("weight_shift", 0.0)
        return torch.nn.functional.layer_norm(x, columns, weight + shift if shift else weight, bias, eps)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """See `_norms`."""
        return tolerance_of(case)


SUITE = LayerNormLegacy()
