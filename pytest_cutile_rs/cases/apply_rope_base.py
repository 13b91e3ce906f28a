# SPDX-License-Identifier: MIT
"""Parity of `apply_rope_base`, in place on q and k, forward and backward.

The shape is (batch, query heads, key heads, length, head dimension). TileGym needs a rotated width,
``partial_rotary_factor`` times the head dimension, that is a power of two times two: its second tile begins where its
first ends. Ours takes any even one (the cases "odd-width").
"""

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
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._rope import TOLERANCES
from pytest_cutile_rs.cases._rope import rotated
from pytest_cutile_rs.cases._rope import tables
from pytest_cutile_rs.cases._tensors import tensor

_OP = "apply_rope_base"
_FACTOR = "partial_rotary_factor"
_ROWS = "cos_batch"
_TABLES = "tables"
_I32 = r"apply_rope_base: q has (extent|stride) \d+ .*32 bits"


def _case(dtype: str, shape: tuple[int, ...], factor: float = 1.0, **more: Any) -> Case:
    params: dict[str, object] = {_FACTOR: factor} if factor != 1.0 else {}
    words = [f"part{factor:g}"] if params else []
    if more.pop("batched", False):
        params[_ROWS] = True
        words.append("batched")
    if tables := more.pop(_TABLES, ""):
        params[_TABLES] = tables
        words.append(f"{tables}-tables")
    if more.pop("odd", False):
        words.append("odd-width")
    if more.pop("back", False):
        params[BACKWARD] = True
    return case(_OP, dtype, shape, tag="-".join(words), params=params, **more)


def _tilegym() -> list[Case]:
    shapes = [(1, 32, 8, 128, 64), (2, 32, 32, 128, 64), (1, 64, 8, 256, 64), (1, 24, 8, 128, 64), (2, 24, 24, 64, 64)]
    found = [_case("f32", shape, quick=shape[1] == 24 and shape[0] == 2) for shape in shapes]
    found += [_case("f32", (1, 8, 8, 64, 256), 0.25), _case("f32", (2, 16, 4, 64, 128), 0.5)]
    return found + [_case(dtype, shape, back=True) for shape in shapes[2:4] for dtype in ("f32", "f16")]


def _timed() -> list[Case]:
    """TileGym's: as projections leave q and k, tables of each batch; its benchmark's and others, heads outermost."""
    kinds = [(32, 128, 1.0), (8, 128, 1.0), (8, 256, 0.25), (8, 128, 0.5)]
    found = [
        _case("f16", (8, 32, keys, length, width), factor, layout="heads-inside", batched=True, perf=True)
        for length in (1, 128, 65536)
        for keys, width, factor in kinds
    ]
    found += [_case("f16", (1, 16, 16, length, 64), perf=True, structural=length == 4096) for length in (4096, 32768)]
    return found + [_case("f16", (8, 32, 8, length, 128), perf=True, structural=False) for length in (128, 65536)]


def _more() -> list[Case]:
    odd = [(1, 1, 1, 1, 2), (1, 3, 1, 1, 64), (2, 5, 3, 17, 32), (1, 7, 7, 3, 128), (3, 1, 1, 33, 16)]
    found = [_case(dtype, shape, quick=(dtype, shape[-1]) == ("bf16", 32)) for shape in odd for dtype in DTYPES]
    found += [_case(dtype, (2, 4, 2, 9, 64), factor, batched=True) for factor in (1.0, 0.5) for dtype in DTYPES]
    found += [_case(dtype, (2, 4, 2, 9, 64), 0.25, back=True, structural=False) for dtype in DTYPES]
    found += [_case(dtype, (2, 4, 2, 9, 64), back=True, batched=True, quick=dtype == "f16") for dtype in DTYPES]
    # "heads-inside" is how a model's projections lie: (batch, length, heads, head dimension), seen with axes swapped.
    found += [
        _case(dtype, (2, 4, 2, 9, 64), layout=layout, structural=layout == "heads-inside")
        for layout in ("heads-inside", "padded", "padded-odd", "offset")
        for dtype in DTYPES
    ]
    found += [_case(dtype, (2, 4, 2, 9, 64), tables="f32", structural=False) for dtype in ("f16", "bf16")]
    found += [_case(dtype, (2, 4, 2, 9, 96), odd=True, structural=False) for dtype in DTYPES]
    found += [_case("f32", shape, structural=False) for shape in ((0, 4, 2, 9, 64), (2, 4, 2, 0, 64))]
    refused = [
        _case("f16", (1, 1, 1, 2**31, 2), raises=_I32, structural=False),
        _case(
            "f16", (1, 2, 1, 4, 3), raises="apply_rope_base: 3 elements of a head were to be rotated", structural=False
        ),
    ]
    found += refused
    return found + [
        _case(dtype, (2, 4, 2, 9, 64), data=data, structural=False)
        for data in ("nan", "inf", "signed-zeros")
        for dtype in DTYPES
    ]


class ApplyRopeBase(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_more()])
    differentiable = (0, 1)
    in_place = (0, 1, UPSTREAM)  # TileGym's backward pass rotates the gradients it is given; ours leaves them
    tolerance = TOLERANCES
    nan_policy = "a NaN or inf makes both elements of its pair NaN or inf; the others stay as they are"
    rounding_policy = (
        "fp32, one rounding at the store; TileGym rounds products and sums to the storage dtype, "
        "where q's is the tables'"
    )

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, cosines, sines; gradients of both results in a backward case."""
        batch, queries, keys, length, width = case.shape
        kwargs: dict[str, Any] = case.kwargs
        rotary = int(width * kwargs.get(_FACTOR, 1.0))
        rows = batch if kwargs.pop(_ROWS, False) else 1
        kind = str(kwargs.pop(_TABLES, case.dtype))
        cos, sin = tables(rows, length, rotary, kind, device, empty=case.data == "empty")
        found = []
        for n, heads in enumerate((queries, keys)):
            inside = case.layout == "heads-inside"
            shape = (batch, length, heads, width) if inside else (batch, heads, length, width)
            layout = "contiguous" if inside else case.layout
            one = tensor(shape, case.dtype, device, seed + n, layout=layout, data=case.data)
            found.append(one.transpose(1, 2) if inside else one)
        if kwargs.pop(BACKWARD, False):
            kwargs[UPSTREAM] = tuple(tensor(one.shape, case.dtype, device, seed + 2 + n) for n, one in enumerate(found))
        return Call((*found, cos, sin), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """Both rotated."""
        q, k, cos, sin = call.args
        return rotated(q, cos, sin), rotated(k, cos, sin)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """By dtype."""
        return self.tolerance[case.dtype]

    def bytes_moved(self, case: Case) -> int:
        """The rotated part of q and k read and written, cosines and sines read; the gradients too."""
        batch, queries, keys, length, width = case.shape
        rotary = int(width * float(str(case.kwargs.get(_FACTOR, 1.0))))
        runs = 2 if case.kwargs.get(BACKWARD) else 1
        tables = (batch if case.kwargs.get(_ROWS) else 1) * ITEMSIZE[str(case.kwargs.get(_TABLES, case.dtype))]
        # Both halves of a table are the same, and one is read.
        return runs * length * rotary * (2 * batch * (queries + keys) * ITEMSIZE[case.dtype] + tables)

    def flops(self, case: Case) -> int:
        """Two products and a sum per rotated element."""
        batch, queries, keys, length, width = case.shape
        return 3 * math.prod((batch, queries + keys, length, width)) * (2 if case.kwargs.get(BACKWARD) else 1)


SUITE = ApplyRopeBase()
