# SPDX-License-Identifier: MIT
"""Parity of `softmax` over the last axis of a 2-D tensor; the shape is (rows, columns).

For a transposed input TileGym's cuTile implementation writes to a contiguous copy of its output and returns the output
itself, uninitialised; and its front end refuses rows of no elements. In those cases its own error is no measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._tensors import tensor

_OP = "softmax"
_VARIANTS: dict[str, tuple[tuple[str, object], ...]] = {
    "": (),
    "tma": (("use_tma", True),),
    "chunked": (("use_chunked", True),),
    "multi_wave": (("use_multi_wave", True),),
}
_I32 = r"(?i)softmax.*x .*(extent|stride).*(32 bits|2147483647)"


def _case(dtype: str, rows: int, cols: int, variant: str = "", **more: Any) -> Case:
    tags = [variant, more.get("layout", ""), more.get("data", "")]
    name = "-".join([dtype, f"{rows}x{cols}", *(tag for tag in tags if tag)])
    return Case(_OP, name, dtype, (rows, cols), params=_VARIANTS[variant], **more)


def _tilegym() -> list[Case]:
    """The shapes of TileGym's own test, in all four variants."""
    shapes = [
        ("f32", 256, 256),
        ("f32", 256, 2048),
        ("f32", 256, 32768),
        ("f16", 256, 256),
        ("f16", 256, 2048),
        ("f32", 256, 9),
        ("f16", 256, 1009),
    ]
    quick = {("f16", 256, 2048, ""), ("f16", 256, 1009, "tma"), ("f32", 256, 256, "chunked")}
    return [_case(*shape, variant, quick=(*shape, variant) in quick) for shape in shapes for variant in _VARIANTS]


def _timed() -> list[Case]:
    shapes = [
        (8192, 1000),
        (4096, 1024),
        (4096, 2048),
        (4096, 4096),
        (4096, 8192),
        (4096, 16384),
        (1024, 16384),
        (256, 32768),
        (64, 1024),
        (131072, 256),
    ]
    return [_case("f16", *shape, perf=True, quick=shape == (64, 1024)) for shape in shapes]


def _sizes() -> list[Case]:
    odd = [(1, 1), (1, 1000), (3, 17), (7, 127), (5, 129), (2, 1023), (9, 1025), (133, 63)]
    found = [_case("bf16", *shape, quick=shape == (3, 17)) for shape in odd]
    found += [_case(dtype, 1000, 1, structural=False) for dtype in DTYPES]
    found += [_case("f32", 17, 8193, variant, structural=False) for variant in ("", "chunked")]
    found += [_case("f32", *shape, structural=False) for shape in ((0, 128), (128, 0), (0, 0))]
    return found


def _layouts() -> list[Case]:
    return [
        _case("f16", 128, 512, layout="transposed"),
        _case("f16", 128, 512, layout="strided"),
        _case("f16", 128, 512, layout="padded"),
        _case("f16", 128, 500, layout="padded-odd"),
        _case("f16", 128, 512, layout="offset"),
        _case("bf16", 128, 512, layout="expanded"),
        _case("f32", 128, 512, layout="every-other-row"),
        _case("f32", 128, 512, "tma", layout="offset"),
        _case("f16", 128, 512, "tma", layout="padded"),
        _case("f16", 128, 512, "chunked", layout="strided", structural=False),
        _case("f16", 128, 512, "multi_wave", layout="transposed", structural=False),
    ]


def _data() -> list[Case]:
    kinds = ("nan", "inf", "masked", "overflow", "shifted", "constant")
    found = [
        _case(dtype, 16, cols, data=data, structural=False)
        for dtype, cols in (("f32", 1000), ("f16", 128), ("bf16", 7))
        for data in kinds
    ]
    found += [
        _case("f16", 16, 1000, variant, data=data, structural=False)
        for variant in _VARIANTS
        if variant
        for data in ("nan", "masked")
    ]
    return found


def _refusals() -> list[Case]:
    return [
        Case(_OP, "f16-rows-beyond-i32", "f16", (2**31, 8), raises=_I32, structural=False),
        Case(_OP, "f32-columns-beyond-i32", "f32", (2, 2**31), raises=_I32, structural=False),
        Case(_OP, "f16-stride-beyond-i32", "f16", (2, 2**30 + 64), layout="strided", raises=_I32, structural=False),
    ]


class Softmax(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_tilegym(), *_timed(), *_sizes(), *_layouts(), *_data(), *_refusals()])
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-5, 1e-7, "exp and division are the approximate ones, about 2 ulp each, in fp32"),
        "f16": Tolerance(1e-3, 1e-6, "computed in fp32, one rounding to 11 bits (2^-11); subnormals of f16 below 6e-8"),
        "bf16": Tolerance(8e-3, 1e-6, "computed in fp32, one rounding to 8 bits (2^-9), doubled"),
    }
    nan_policy = "a NaN, a +inf, or nothing but -inf in a row makes the whole row NaN, as in torch"
    rounding_policy = "fp32 throughout, one rounding at the store"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x of (rows, columns)."""
        x = tensor(case.shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        return Call((x,), case.kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        import torch

        return torch.softmax(call.args[0].to(torch.float64), dim=-1)

    def torch(self, case: Case, call: Call) -> Any:
        """`torch.softmax`."""
        import torch

        return torch.softmax(call.args[0], dim=-1)

    def bytes_moved(self, case: Case) -> int:
        """One read and one write of the tensor."""
        return 2 * case.shape[0] * case.shape[1] * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Maximum, subtraction, exponential, sum, product per element."""
        return 5 * case.shape[0] * case.shape[1]


SUITE = Softmax()
