# SPDX-License-Identifier: MIT
"""Parity of `silu_and_mul`, forward and backward: (..., 2H) -> (..., H); the shape is the output's, (..., H)."""

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
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._swiglu import of_the_gate
from pytest_cutile_rs.cases._swiglu import swiglu
from pytest_cutile_rs.cases._tensors import tensor

_OP = "silu_and_mul"
_I32 = r"(?i)silu_and_mul.*input .*(extent|stride).*(32 bits|2147483647)"
_DEVICES = r"(?i)silu_and_mul.* is on .* but .* is on "


def _case(dtype: str, *shape: int, tag: str = "", **more: Any) -> Case:
    back = BACKWARD if dict(more.get("params", ())).get(BACKWARD) else ""
    tags = [tag, more.get("layout", ""), more.get("data", ""), back]
    name = "-".join([dtype, "x".join(map(str, shape)), *(tag for tag in tags if tag)])
    return Case(_OP, name, dtype, shape, **more)


def _tilegym() -> list[Case]:
    """The shapes of TileGym's own tests: regular and irregular ones."""
    regular = [
        ("f16", 8, 512, 512),
        ("f16", 8, 512, 1024),
        ("f32", 8, 512, 2048),
        ("f16", 8, 1024, 512),
        ("f32", 8, 1024, 1024),
        ("f32", 8, 1024, 2048),
        ("f16", 16, 512, 512),
        ("f32", 16, 512, 1024),
        ("f32", 16, 1024, 512),
        ("f16", 16, 1024, 1024),
        ("f32", 16, 1024, 2048),
        ("f32", 32, 512, 512),
        ("f16", 32, 512, 1024),
        ("f32", 32, 512, 2048),
        ("f16", 32, 1024, 512),
        ("f32", 32, 1024, 1024),
        ("f32", 32, 1024, 4096),
    ]
    irregular = [
        (7, 512, 512),
        (13, 256, 1024),
        (8, 100, 512),
        (8, 333, 1024),
        (8, 256, 1000),
        (8, 256, 1500),
        (8, 256, 3000),
        (7, 100, 1000),
        (13, 333, 1500),
    ]
    # One shape of each width is compiled; the rows change nothing in the kernel but a 16-divisible extent.
    compiled: set[tuple[str, int, bool]] = set()
    found = []
    for dtype, *shape in [*regular, *(("f32", *shape) for shape in irregular)]:
        key = (dtype, shape[-1], shape[0] * shape[1] % 16 == 0)
        quick = (dtype, *shape) == ("f32", 7, 100, 1000)
        found.append(_case(dtype, *shape, structural=key not in compiled, quick=quick))
        compiled.add(key)
    return found


def _timed() -> list[Case]:
    shapes = [(64, 1024, hidden) for hidden in (512, 1024, 4096, 8192)]
    found = [_case(dtype, *shape, perf=True) for shape in shapes for dtype in ("f16", "f32")]
    found += [_case("f16", 7, 1000, perf=True, quick=True), _case("f16", 13, 333, perf=True, quick=True)]
    return found


def _sizes() -> list[Case]:
    odd = [(1, 1), (1, 1000), (3, 17), (2, 127), (5, 129), (2, 1023), (9, 1025)]
    found = [_case("bf16", *shape, quick=shape == (3, 17)) for shape in odd]
    found += [_case(dtype, 300, 1, structural=False) for dtype in DTYPES]
    found += [_case("bf16", 8, 512, 1024), _case("bf16", 2, 3, 4, 64, structural=False)]
    found += [_case("f32", *shape, structural=False) for shape in ((0, 128), (4, 0, 64), (8, 0))]
    return found


def _layouts() -> list[Case]:
    return [
        _case("f16", 64, 512, layout="transposed"),
        _case("f16", 64, 512, layout="strided"),
        _case("f16", 64, 512, layout="padded"),
        _case("f16", 64, 500, layout="padded-odd"),
        _case("f16", 64, 512, layout="offset"),
        _case("bf16", 64, 512, layout="expanded"),
        _case("f32", 64, 512, layout="every-other-row"),
        _case("f32", 4, 16, 512, layout="strided", structural=False),
    ]


def _out() -> list[Case]:
    return [
        _case(dtype, 64, cols, tag="out", params=(("out", True),), quick=dtype == "f16", structural=dtype == "f16")
        for dtype, cols in (("f32", 1000), ("f16", 512), ("bf16", 129))
    ]


def _data() -> list[Case]:
    kinds = ("nan", "inf", "overflow", "wide", "tiny", "signed-zeros")
    return [
        _case(dtype, 16, cols, data=data, structural=False)
        for dtype, cols in (("f32", 1000), ("f16", 128), ("bf16", 7))
        for data in kinds
    ]


def _backward() -> list[Case]:
    """The gradient's kernel; TileGym has one for each half of it, and joins them."""

    def back(dtype: str, *shape: int, **more: Any) -> Case:
        return _case(dtype, *shape, params=((BACKWARD, True),), **more)

    found = [back("f32", *shape) for shape in ((2, 64, 512), (4, 128, 1024), (7, 100, 1000), (13, 33, 1500))]
    found += [back(dtype, 2, 64, 512, quick=dtype == "f16") for dtype in ("f16", "bf16")]
    found += [back("bf16", *shape, structural=False) for shape in ((1, 1), (3, 17), (300, 1), (9, 1025), (2, 3, 4, 65))]
    found += [
        back("f16", 64, 500, layout=layout, structural=False)
        for layout in ("transposed", "strided", "padded", "padded-odd", "offset", "expanded", "every-other-row")
    ]
    found += [back(dtype, 16, 130, data=data, structural=False) for data in ("nan", "wide", "tiny") for dtype in DTYPES]
    found += [back("f32", *shape, structural=False) for shape in ((0, 128), (4, 0, 64))]
    timed = [(dtype, hidden) for hidden in (512, 1024, 4096) for dtype in ("f16", "f32")]
    return found + [back(dtype, 64, 1024, hidden, perf=True) for dtype, hidden in timed]


def _refusals() -> list[Case]:
    return [
        Case(_OP, "f16-rows-beyond-i32", "f16", (2**31, 8), raises=_I32, structural=False),
        Case(_OP, "f32-columns-beyond-i32", "f32", (2, 2**30), raises=_I32, structural=False),
        Case(_OP, "f16-out-elsewhere", "f16", (4, 8), (("out", "elsewhere"),), raises=_DEVICES, structural=False),
    ]


class SiluAndMul(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_sizes(), *_layouts(), *_out(), *_data(), *_backward(), *_refusals()])
    differentiable = (0,)
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-5, 1e-6, "exp2 and division are the approximate ones; the exponent's argument has 24 bits"),
        "f16": Tolerance(1e-3, 1e-6, "computed in fp32, one rounding to 11 bits (2^-11), doubled"),
        "bf16": Tolerance(8e-3, 1e-6, "computed in fp32, one rounding to 8 bits (2^-9), doubled"),
    }
    nan_policy = "NaN and silu(-inf) = NaN propagate as in torch; a product beyond the dtype is inf"
    rounding_policy = "fp32 throughout, one rounding at the store; silu is not rounded before the product"

    def calls_torch(self, case: Case) -> bool:
        """The concatenation of the gradient's halves, on cuTile Python's side."""
        return bool(case.kwargs.get(BACKWARD))

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """Input of (..., 2H); ``out`` of (..., H), or the gradient of the result, where the case asks for it."""
        *lead, hidden = case.shape
        x = tensor((*lead, 2 * hidden), case.dtype, device, seed, layout=case.layout, data=case.data)
        if case.kwargs.get(BACKWARD):
            return Call((x,), {UPSTREAM: tensor(case.shape, case.dtype, device, seed + 1)})
        where = case.kwargs.get("out")
        if not where:
            return Call((x,))
        elsewhere = "cpu" if device == "meta" else "meta"
        return Call((x,), {"out": x.new_empty(case.shape, device=elsewhere if where == "elsewhere" else device)})

    def formula(self, case: Case, call: Call) -> Any:
        """Silu of the first half times the second."""
        return swiglu(*call.args[0].chunk(2, dim=-1))

    def torch(self, case: Case, call: Call) -> Any:
        """Two torch kernels; with the gradient, `formula`."""
        import torch

        if UPSTREAM in call.kwargs:
            return super().torch(case, call)
        gate, value = call.args[0].chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * value

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """A gradient is the result's error times two factors around one, and sums that cancel."""
        base = self.tolerance[case.dtype]
        if output == 0:
            return base
        return of_the_gate(base, 1e3 if case.data == "wide" else 1.0)

    def bytes_moved(self, case: Case) -> int:
        """Two reads and one write per output element; backward three reads and two writes more."""
        return (8 if case.kwargs.get(BACKWARD) else 3) * math.prod(case.shape) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Negation, exponential, sum, quotient, product per output element; about as many per gradient."""
        return (15 if case.kwargs.get(BACKWARD) else 5) * math.prod(case.shape)


SUITE = SiluAndMul()
