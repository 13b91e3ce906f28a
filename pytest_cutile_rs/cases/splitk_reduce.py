# SPDX-License-Identifier: MIT
"""Parity of `splitk_reduce`: partial attention results merged by their log-sum-exps (base 2), written to ``attn_out``.

The shape is (batch, heads, splits, head dimension). TileGym's kernel multiplies matrices from 16 splits on.
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
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import tensor

_OP = "splitk_reduce"
_HALF = ("f16", "bf16")
_I32 = r"splitk_reduce: attn_splitk_out has (extent|stride) \d+ .*32 bits"
_WIDE: dict[str, Any] = {"params": {"partials": "f32"}, "tag": "f32-partials"}


def _tilegym() -> list[Case]:
    return [
        case(_OP, dtype, (batch, heads, splits, 512), quick=(dtype, batch, heads) == ("f16", 1, 16))
        for batch in (1, 2)
        for heads in (16, 32)
        for splits in (1, 2, 8, 16)
        for dtype in _HALF
    ]


def _timed() -> list[Case]:
    return [
        case(_OP, "f16", (1, heads, splits, 512), tag="timed", perf=True)
        for heads in (16, 32)
        for splits in (2, 8, 16, 64)
    ]


def _more() -> list[Case]:
    odd = [(1, 1, 1, 1), (3, 5, 3, 64), (1, 2, 7, 100), (2, 3, 17, 130), (1, 1, 64, 33), (2, 2, 129, 16)]
    found = cases(_OP, DTYPES, odd, structural=False) + cases(_OP, _HALF, [(2, 4, 6, 128), (2, 4, 32, 128)], **_WIDE)
    found += [
        case(_OP, "f16", (2, 4, 6, 100), layout=layout, structural=False)
        for layout in ("transposed", "padded", "padded-odd", "offset", "expanded", "every-other-row")
    ]
    found += cases(_OP, ("f16",), [(0, 4, 2, 64)], structural=False)
    found += cases(_OP, ("f16",), [(2**31, 1, 1, 16)], raises=_I32, structural=False)
    found += cases(_OP, ("f16",), [(2, 4, 0, 64)], raises="splitk_reduce: there is no split", structural=False)
    return found + [
        case(_OP, dtype, (4, 4, splits, 64), data=data, structural=False)
        for data in ("unused", "huge", "nan", "inf")
        for splits in (5, 16)
        for dtype in DTYPES
    ]


class SplitkReduce(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_more()])
    in_place = (2,)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(
            2e-3, 2e-3, "from 16 splits on TileGym rounds weights and partials to tf32 (11 bits); ours do not"
        ),
        "f16": Tolerance(
            2e-3,
            2e-3,
            "TileGym rounds weights to tf32 (11 bits) from 16 splits on; one rounding to 11 bits at the store",
        ),
        "bf16": Tolerance(8e-3, 2e-3, "as f16, with one rounding to 8 bits"),
    }
    nan_policy = (
        "a NaN partial makes its element NaN, a NaN or +inf weight everything; a split of weight -inf counts nothing"
    )
    rounding_policy = "weights and sums in fp32, one rounding at the store"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """Partials, their log-sum-exps, the result, and a length that nothing depends on.

        Kinds of data: ``unused`` splits have no weight at all; ``huge`` log-sum-exps overflow exp2 unless their maximum
        is subtracted; ``nan`` and ``inf`` are in the partials.
        """
        batch, heads, splits, width = case.shape
        dtype = str(case.kwargs.get("partials", case.dtype))
        data = case.data if case.data in ("nan", "inf", "empty") else "randn"
        partials = tensor(case.shape, dtype, device, seed, layout=case.layout, data=data)
        kinds = {"huge": "shifted", "empty": "empty"}
        weights = tensor((batch, heads, splits), "f32", device, seed + 1, data=kinds.get(case.data, "randn"))
        if case.data == "unused" and device != "meta":
            weights[..., 1:] = weights[..., 1:].where(weights[..., 1:] > 0, -math.inf)
        result = tensor((batch, heads, width), case.dtype, device, seed + 2, data="empty")
        return Call((partials, weights, result, 4096))

    def formula(self, case: Case, call: Call) -> Any:
        """The softmax, base 2, of the log-sum-exps, times the partials."""
        import torch

        partials, weights, _, _ = call.args
        share = torch.softmax(weights * math.log(2.0), dim=-1)
        return (share.unsqueeze(-1) * partials).sum(dim=-2)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """What was written to ``attn_out``."""
        return (call.args[2],)

    def bytes_moved(self, case: Case) -> int:
        """The partials read, the result written."""
        batch, heads, splits, width = case.shape
        return batch * heads * width * (splits * ITEMSIZE[str(case.kwargs.get("partials", case.dtype))] + 2)

    def flops(self, case: Case) -> int:
        """A product and a sum per partial."""
        return 2 * math.prod(case.shape)


SUITE = SplitkReduce()
