# SPDX-License-Identifier: MIT
"""Parity of `bmm`: op(a[i]) @ op(b[i]) for each i of a batch; the shape is (batch, M, N, K)."""

from __future__ import annotations

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
from pytest_cutile_rs.cases._products import product_tolerance
from pytest_cutile_rs.cases._tensors import tensor

_OP = "bmm"
_TRANSPOSES: tuple[tuple[str, ...], ...] = ((), ("ta",), ("tb",), ("ta", "tb"))


def _case(dtype: str, batch: int, m: int, n: int, k: int, *flags: str, **more: Any) -> Case:
    """Flags: ``ta``, ``tb`` (transposed operands) and ``np`` (the schedule that is not persistent)."""
    params: dict[str, object] = {"transpose_a": "ta" in flags, "transpose_b": "tb" in flags}
    params["static_persistent"] = "np" not in flags
    tags = [*flags, more.get("layout", ""), more.get("data", "")]
    name = "-".join([dtype, f"{batch}x{m}x{n}x{k}", *(tag for tag in tags if tag)])
    return Case(_OP, name, dtype, (batch, m, n, k), params=tuple(params.items()), **more)


def _tilegym() -> list[Case]:
    """TileGym's own test: four products of positive matrices, K odd and even, the schedule without transposes."""
    compiled = {(128, 256, 511), (128, 256, 512)}
    return [
        _case("f16", 4, m, n, k, *flags, data="positive", structural=(m, n, k) in compiled)
        for k in (512, 511, 1024, 1023)
        for m in (128, 1024)
        for n in (256, 512)
        for flags in (*_TRANSPOSES, ("np",))
    ]


def _small() -> list[Case]:
    modes = (*_TRANSPOSES, ("np",))
    found = [_case("f16", 2, 65, 40, 96, *flags, quick=flags in ((), ("ta", "tb"))) for flags in modes]
    found += [_case(dtype, 3, 33, 129, 71, *flags, structural=False) for dtype in DTYPES for flags in modes]
    found += [_case("f16", 1, 1, 1, 1, structural=False), _case("bf16", 5, 1, 200, 17, structural=False)]
    found += [_case("f32", 2, 64, 64, 64), _case("bf16", 2, 128, 128, 64, "np")]
    return found


def _layouts() -> list[Case]:
    return [
        _case("f16", 2, 128, 64, 96, layout="padded", structural=False),
        _case("f16", 2, 128, 64, 96, layout="transposed"),
        _case("f16", 2, 64, 64, 64, "np", layout="strided", structural=False),
        _case("f16", 2, 64, 64, 64, layout="offset", structural=False),
        _case("f16", 2, 48, 40, 64, data="nan", structural=False),
        _case("bf16", 2, 48, 40, 33, "np", data="inf", structural=False),
    ]


def _timed() -> list[Case]:
    return [
        _case("f16", batch, size, size, size, *flags, perf=True, structural=False)
        for batch in (2, 8)
        for size in (2048, 4096, 8192)
        for flags in _TRANSPOSES
    ]


class Bmm(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple([*_small(), *_tilegym(), *_layouts(), *_timed()])
    tolerance = TOLERANCE
    nan_policy = NAN_POLICY
    rounding_policy = ROUNDING_POLICY

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """``a`` and ``b``, each already transposed in shape when its flag is set."""
        batch, m, n, k = case.shape
        a_shape = (batch, k, m) if case.kwargs["transpose_a"] else (batch, m, k)
        b_shape = (batch, n, k) if case.kwargs["transpose_b"] else (batch, k, n)
        other = "randn" if case.data in ("nan", "inf") else case.data
        a = tensor(a_shape, case.dtype, device, seed, layout=case.layout, data=case.data)
        b = tensor(b_shape, case.dtype, device, seed + 1, layout=case.layout, data=other)
        return Call((a, b), case.kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        import torch

        a, b = (operand.to(torch.float64) for operand in self._operands(call))
        return a @ b

    def torch(self, case: Case, call: Call) -> Any:
        """cuBLAS."""
        a, b = self._operands(call)
        return a @ b

    @staticmethod
    def _operands(call: Call) -> tuple[Any, Any]:
        a, b = call.args
        a = a.transpose(1, 2) if call.kwargs["transpose_a"] else a
        return a, (b.transpose(1, 2) if call.kwargs["transpose_b"] else b)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The absolute part grows with sqrt(K)."""
        return product_tolerance(case.dtype, case.shape[3], case.data)

    def bytes_moved(self, case: Case) -> int:
        """Both operands read once, the product written once."""
        batch, m, n, k = case.shape
        return batch * (m * k + k * n + m * n) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """2 M N K for each product."""
        batch, m, n, k = case.shape
        return 2 * batch * m * n * k


SUITE = Bmm()
