# SPDX-License-Identifier: MIT
"""Parity of `matmul`: op(a) @ op(b); the shape is (M, N, K)."""

from __future__ import annotations

import math
from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._products import NAN_POLICY
from pytest_cutile_rs.cases._products import ROUNDING_POLICY
from pytest_cutile_rs.cases._products import TOLERANCE
from pytest_cutile_rs.cases._tensors import tensor

_OP = "matmul"
_I32 = r"(?i)matmul.*\b[ab] .*(extent|stride).*(32 bits|2147483647)"
_DEVICES = r"(?i)matmul.* is on .* but .* is on "
_SHORT = {"static_persistent": "sp", "use_tma": "tma", "trans_a": "ta", "trans_b": "tb"}


def _case(dtype: str, m: int, n: int, k: int, *flags: str, **more: Any) -> Case:
    short = {text: name for name, text in _SHORT.items()}
    tags = [*flags, more.get("layout", ""), more.get("data", "")]
    name = "-".join([dtype, f"{m}x{n}x{k}", *(tag for tag in tags if tag)])
    return Case(_OP, name, dtype, (m, n, k), params=tuple((short[flag], True) for flag in flags), **more)


def _tilegym() -> list[Case]:
    """TileGym's own test shapes, both schedules; K = 1023 is one it skips."""
    shapes = [(8, 8, 8), (1024, 1024, 1024), (1024, 1024, 1023), (3072, 6144, 2720), (8192, 8192, 8192)]
    found = [
        _case("bf16", *shape, *flags, structural=shape in {(1024, 1024, 1024), (1024, 1024, 1023), (8, 8, 8)})
        for shape in shapes
        for flags in (("sp", "tma"), ("tma",))
    ]
    return found


# TileGym's two schedules: the default one, and the persistent one, faster when large.
_SCHEDULES: tuple[tuple[str, ...], ...] = ((), ("sp",))


def _timed() -> list[Case]:
    cubes = [(size, size, size) for size in (512, 1024, 2048, 4096, 8192)]
    return [
        _case(dtype, *shape, *flags, perf=True, structural=shape[0] == 1024, quick=quick)
        for flags in _SCHEDULES
        for dtype in ("bf16", "f16")
        for shape in [*cubes, (4096, 8192, 2728)]
        for quick in [(dtype, shape[0], flags) == ("bf16", 512, ())]
    ]


def _timed_more() -> list[Case]:
    """TileGym's other timed shapes: those of language models, tf32, e4m3, and transposed operands."""
    models = [(4096, 4096, 5440), (12288, 2048, 2560), (12288, 4096, 2560), (4096, 5120, 2720), (3072, 6144, 2720)]
    found = [_case("f16", *shape, *flags, perf=True, structural=False) for flags in _SCHEDULES for shape in models]
    found += [
        _case(dtype, size, size, size, *flags, perf=True, structural=False)
        for flags in _SCHEDULES
        for dtype, sizes in (("f8e4m3", (2048, 4096)), ("f32", (2048, 4096)))
        for size in sizes
    ]
    return [*found, _case("f16", 4096, 4096, 4096, "ta", "sp", perf=True, structural=False)]


def _flags() -> list[Case]:
    found = [_case("f16", 256, 192, 320, *flags, "sp") for flags in (("ta",), ("tb",), ("ta", "tb"))]
    found += [_case("bf16", 100, 75, 33, *flags, "sp", structural=False) for flags in (("ta",), ("tb",), ("ta", "tb"))]
    found += [
        _case("f32", 256, 256, 256, quick=True),
        _case("f32", 256, 256, 256, "sp"),
        _case("f32", 64, 32, 130, "ta", "tb", "sp", structural=False),
        _case("f16", 256, 256, 256, "sp", "tma", quick=True, structural=False),
    ]
    return found


def _sizes() -> list[Case]:
    odd = [(1, 1, 1), (1, 1000, 17), (1000, 1, 129), (17, 33, 65), (127, 129, 63), (513, 5, 1025), (2, 3, 1000)]
    found = [_case("f16", *shape, structural=shape == (17, 33, 65), quick=shape == (17, 33, 65)) for shape in odd]
    found += [_case(dtype, 65, 127, 100, "sp", structural=False) for dtype in DTYPES]
    found += [_case("bf16", 128, 128, 16384, structural=False, data=data) for data in ("positive", "alternating")]
    found += [_case("f32", *shape, structural=False) for shape in ((0, 64, 64), (64, 0, 64), (64, 64, 0))]
    return found


def _fp8() -> list[Case]:
    """e4m3 ends at 448, which a sum of K = 320 products of unit normals stays below."""
    found = [_case(dtype, 256, 192, 320, quick=dtype == "f8e5m2") for dtype in ("f8e4m3", "f8e5m2")]
    found += [_case(dtype, 100, 75, 33, "tb", structural=False) for dtype in ("f8e4m3", "f8e5m2")]
    found += [_case("f8e5m2", 128, 256, 192, "ta", layout="padded", structural=False)]
    found += [_case("f8e5m2", size, size, size, perf=True, structural=False) for size in (1024, 4096, 8192)]
    return found


def _layouts() -> list[Case]:
    return [
        _case("f16", 128, 256, 192, layout="transposed"),
        _case("f16", 128, 256, 192, layout="strided", structural=False),
        _case("f16", 128, 256, 192, layout="padded", quick=True),
        _case("f16", 128, 256, 192, layout="padded-odd", structural=False),
        _case("f16", 128, 256, 192, layout="offset"),
        _case("f32", 128, 256, 192, layout="every-other-row", structural=False),
        _case("bf16", 128, 256, 192, layout="expanded", structural=False),
        _case("bf16", 128, 256, 192, "sp", layout="offset", structural=False),
    ]


def _data() -> list[Case]:
    found = [
        _case(dtype, 48, 40, k, data=data, structural=False)
        for dtype, k in (("f32", 36), ("f16", 64), ("bf16", 33))
        for data in ("nan", "inf")
    ]
    # In f16 alone: the other two would overflow inside the fp32 sum, where the order of the terms decides the result.
    return [*found, _case("f16", 48, 40, 64, data="overflow", structural=False)]


def _refusals() -> list[Case]:
    return [
        Case(_OP, "f16-rows-beyond-i32", "f16", (2**31, 8, 8), raises=_I32, structural=False),
        Case(_OP, "f16-columns-beyond-i32", "f16", (8, 2**31, 8), raises=_I32, structural=False),
        Case(_OP, "bf16-two-devices", "bf16", (8, 8, 8), data="two-devices", raises=_DEVICES, structural=False),
    ]


class Matmul(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple(
        [*_tilegym(), *_timed(), *_timed_more(), *_flags(), *_sizes(), *_fp8(), *_layouts(), *_data(), *_refusals()]
    )
    tolerance = TOLERANCE
    nan_policy = NAN_POLICY
    rounding_policy = ROUNDING_POLICY

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """``a`` and ``b``, each already transposed in shape when its flag is set."""
        m, n, k = case.shape
        flags = case.kwargs
        data, other = case.data, device
        if data == "two-devices":
            data, other = "randn", "cpu" if device == "meta" else "meta"
        a_shape = (k, m) if flags.get("trans_a") else (m, k)
        b_shape = (n, k) if flags.get("trans_b") else (k, n)
        # Special values in `a` alone: with both, every element of the product would be one of them.
        b_data = {"nan": "randn", "inf": "randn", "overflow": "randn", "alternating": "positive"}.get(data, data)
        a = tensor(a_shape, case.dtype, device, seed, layout=case.layout, data=data)
        b = tensor(b_shape, case.dtype, other, seed + 1, layout=case.layout, data=b_data)
        return Call((a, b), flags)

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        import torch

        a, b = (operand.to(torch.float64) for operand in self._operands(case, call))
        return a @ b

    def torch(self, case: Case, call: Call) -> Any:
        """cuBLAS; f32 with tf32 off unless the process allows it."""
        a, b = self._operands(case, call)
        return a @ b

    @staticmethod
    def _operands(case: Case, call: Call) -> tuple[Any, Any]:
        a, b = call.args
        flags = case.kwargs
        return (a.t() if flags.get("trans_a") else a), (b.t() if flags.get("trans_b") else b)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The absolute part grows with sqrt(K), as the rounding noise of a sum of K products does."""
        base = self.tolerance[case.dtype]
        size = 65504.0 if case.data == "overflow" else 1.0
        return Tolerance(base.rtol, base.atol * size * math.sqrt(max(case.shape[2], 1)), base.why)

    def bytes_moved(self, case: Case) -> int:
        """Both operands read once, the product written once."""
        m, n, k = case.shape
        return (m * k + k * n + m * n) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """2 M N K."""
        m, n, k = case.shape
        return 2 * m * n * k


SUITE = Matmul()
