# SPDX-License-Identifier: MIT
"""Parity of `persistent_layer_norm` over the last axis, forward only: the result, each row's mean and 1 / deviation.

bf16 alone, which TileGym's kernel always stores. No rows at all are refused by cuTile Python's front end: their number
of blocks, zero, is the step of a loop. TileGym's variance, E[x^2] - mean^2, cancels; ours is E[(x - mean)^2].
"""

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
from pytest_cutile_rs.cases._norms import EPS
from pytest_cutile_rs.cases._norms import I32
from pytest_cutile_rs.cases._norms import LayerNormSuite
from pytest_cutile_rs.cases._norms import moments
from pytest_cutile_rs.cases._norms import weight_and_bias
from pytest_cutile_rs.cases._tensors import tensor

_OP = "persistent_layer_norm"
_LAYOUTS = ("transposed", "strided", "padded", "padded-odd", "offset", "expanded", "every-other-row")
_GIVEN = "moments"
_MEAN = Tolerance(1e-5, 1e-5, "a sum in fp32, whose error goes by the size of its terms, about one")
_STATISTICS = Tolerance(2e-3, 1e-5, "the variance is E[x^2] - mean^2 in fp32, which cancels; it sits under a root")


def _listed() -> list[Case]:
    found = [
        case(_OP, "bf16", (256, 256), quick=True),
        *cases(_OP, ("bf16",), [(4096, 512), (1024, 1024), (30000, 1024)]),
    ]
    timed = [(30000, 256), (30000, 1024), (30000, 10000), (128000, 256), (128000, 1024)]
    found += [case(_OP, "bf16", shape, tag="timed", perf=True) for shape in timed]
    odd = [(1, 1), (1, 1000), (300, 1), (3, 17), (2, 1023), (9, 1025), (133, 63), (2, 3, 65), (5, 129)]
    odd += [(300, 500), (2200, 1000), (3, 4096), (3, 8192), (2, 16384), (2, 32768)]  # each length of tile
    found += [case(_OP, "bf16", shape, quick=shape == (3, 17)) for shape in odd]
    found += [case(_OP, "bf16", shape, tag="given", params={_GIVEN: True}, quick=shape == (64, 256))
              for shape in ((64, 256), (9, 130))]  # fmt: skip
    found += [case(_OP, "bf16", (64, 500), layout=layout, structural=False) for layout in _LAYOUTS]
    found += [case(_OP, "bf16", (3, 40000), structural=False)]  # read twice
    found += [case(_OP, "bf16", (3, 10000))]  # in two tiles
    found += [case(_OP, "bf16", (3, 5000), tag="given", params={_GIVEN: True}, structural=False)]
    found += [case(_OP, "bf16", (0, 128), structural=False)]
    found += [case(_OP, "bf16", (8, 0), structural=False, no_information_ok=True)]  # means of nothing
    found += [case(_OP, "bf16", shape, raises=I32, structural=False) for shape in ((2**31, 8), (2, 2**31))]
    kinds = ("nan", "inf", "constant", "tiny", "wide", "shifted")
    found += [case(_OP, "bf16", (16, 130), data=data, structural=False) for data in kinds]
    # Where a warp has rows of its own, and where a row has two tiles.
    return found + [
        case(_OP, "bf16", shape, data=data, structural=False)
        for shape in ((2200, 600), (7, 5000))
        for data in ("nan", "inf", "wide")
    ]


class PersistentLayerNorm(LayerNormSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "bf16": Tolerance(8e-3, 1e-3, "computed in fp32, one rounding to 8 bits; atol for the cancelling variance"),
    }
    nan_policy = "a NaN or inf makes its whole row NaN"
    rounding_policy = "fp32, one rounding at the store; TileGym's variance is E[x^2] - mean^2"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, its normalised shape, weight, bias, eps; mean and 1 / deviation when the case gives them."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        columns = case.shape[-1:]
        kwargs: dict[str, Any] = {}
        if case.kwargs.get(_GIVEN):
            rows = math.prod(case.shape[:-1])
            # Not x's own, so that a kernel which computes them is found out.
            plain = "empty" if case.data == "empty" else "positive"
            kwargs = {
                name: tensor((rows,), "f32", device, seed + n, data=plain) for n, name in ((3, "mean"), (4, "rstd"))
            }
        return Call((x, columns, *weight_and_bias(case, columns, device, seed), EPS), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """The result, the means, the reciprocal deviations."""
        x, _, weight, bias, eps = call.args
        rows = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        if case.kwargs.get(_GIVEN):
            mean, rstd = (call.kwargs[name].unsqueeze(-1) for name in ("mean", "rstd"))
        else:
            mean, rstd = moments(rows, (-1,), eps)
        return ((rows - mean) * rstd * weight + bias).view(x.shape), mean.squeeze(-1), rstd.squeeze(-1)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """Without the block size and the warps that TileGym returns too."""
        return tuple(result[:3]) if isinstance(result, tuple) else (result,)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The statistics are fp32."""
        return case.dtype if output == 0 else "f32"

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Of the result, or of the statistics; shifted data lose more of the variance."""
        if output == 0:
            base = self.tolerance[case.dtype]
            return Tolerance(1e-2, 1e-2, base.why) if case.data == "shifted" else base
        if output == 1:
            return _MEAN
        return Tolerance(1e-2, 1e-3, _STATISTICS.why) if case.data == "shifted" else _STATISTICS


SUITE = PersistentLayerNorm()
