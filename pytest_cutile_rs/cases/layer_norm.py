# SPDX-License-Identifier: MIT
"""Parity of `layer_norm` over axes start_dim to end_dim, axes after them kept apart, forward only.

TileGym's kernels take weight and bias of rank 1, so that one axis is normalised, or several with a flat weight. No
elements at all are refused by TileGym (a view of -1 extents).
"""

from __future__ import annotations

import math
from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._norms import EPS
from pytest_cutile_rs.cases._norms import I32
from pytest_cutile_rs.cases._norms import TOLERANCES
from pytest_cutile_rs.cases._norms import LayerNormSuite
from pytest_cutile_rs.cases._norms import moments
from pytest_cutile_rs.cases._norms import tolerance_of
from pytest_cutile_rs.cases._norms import weight_and_bias
from pytest_cutile_rs.cases._tensors import tensor

_OP = "layer_norm"


def _case(dtype: str, shape: tuple[int, ...], start: int, end: int, shift: float = 0.0, **more: Any) -> Case:
    params = {"start_dim": start, "end_dim": end, **({"weight_shift": shift} if shift else {})}
    tag = f"{start}to{end}".replace("-", "m") + (f"-shift{shift:g}" if shift else "")
    return case(_OP, dtype, shape, tag=tag, params=params, **more)


def _tilegym() -> list[Case]:
    """TileGym tests none of these; the first group is gathered (fewer than 16 elements behind), the second tiled."""
    shapes = [((8, 256), 1, 2), ((4, 32, 3), 1, 2), ((2, 32, 64), 1, 2), ((2, 16, 7, 9), 1, 2), ((3, 40, 100), -2, -1)]
    return [
        _case(dtype, *shape, shift, quick=(dtype, shift) == ("f16", 1.0))
        for shape in shapes
        for shift in (0.0, 1.0)
        for dtype in DTYPES
    ]


def _timed() -> list[Case]:
    shapes = [((8192, 4096), 1, 2), ((64, 32, 128, 128), 1, 2), ((16, 1024, 1024), 1, 2)]
    return [_case(dtype, *shape, perf=True) for shape in shapes for dtype in ("bf16", "f32")]


def _more() -> list[Case]:
    odd = [
        ((1, 1), 1, 2),
        ((300, 1), 1, 2),
        ((1, 1000, 1), 1, 2),
        ((3, 17, 2), 1, 2),
        ((5, 9, 15), 1, 2),
        ((2, 1025, 16), 1, 2),
        ((2, 33, 1030), 1, 2),
        ((16, 40), 0, 1),
        ((2, 4, 6, 20), 1, 3),
        ((2, 5000, 17), 1, 2),  # too deep for one tile: read twice
        ((3, 40000), 1, 2),
    ]
    found = [_case(dtype, *shape, structural=False) for shape in odd for dtype in DTYPES]
    found += [
        _case("f16", (3, 20, 48), 1, 2, layout=layout, structural=False)
        for layout in ("transposed", "strided", "padded-odd", "offset", "expanded", "every-other-row")
    ]
    found += [
        _case(dtype, (8, 24, after), 1, 2, data=data, structural=False)
        for data in ("nan", "inf", "constant", "wide")
        for after in (3, 20)
        for dtype in DTYPES
    ]
    found += [_case("f32", shape, 1, 2, structural=False) for shape in ((0, 8, 4), (4, 0, 8), (4, 8, 0))]
    found += [_case("f16", shape, 1, 2, raises=I32, structural=False) for shape in ((2**31, 8), (2, 4, 2**31))]
    return found + [_case(dtype, (8, 24, 20), 1, 2, data="shifted", structural=False) for dtype in ("f16", "bf16")]


class LayerNorm(LayerNormSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_more()])
    tolerance = TOLERANCES
    nan_policy = "a NaN or inf makes everything it is normalised with NaN"
    rounding_policy = "fp32, one rounding at the store; TileGym rounds weight + weight_shift to the storage dtype too"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, both axes, weight, bias, eps."""
        kwargs: dict[str, Any] = case.kwargs
        start, end = kwargs.pop("start_dim"), kwargs.pop("end_dim")
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        flat = (math.prod(case.shape[start:end]),)
        return Call((x, start, end, *weight_and_bias(case, flat, device, seed), EPS), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """See `_norms`."""
        x, start, end, weight, bias, eps = call.args
        dims = tuple(range(start % x.ndim, (end - 1) % x.ndim + 1))
        mean, rstd = moments(x, dims, eps)
        shape = [extent if axis in dims else 1 for axis, extent in enumerate(x.shape)]
        return (x - mean) * rstd * (weight + call.kwargs.get("weight_shift", 0.0)).view(shape) + bias.view(shape)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """See `_norms`."""
        return tolerance_of(case)


SUITE = LayerNorm()
