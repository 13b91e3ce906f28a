# SPDX-License-Identifier: MIT
"""Parity of `group_gemm`: a list of products of different sizes, run as one kernel.

The shape lists M, N, K of one product after the other; all results are outputs.
"""

from __future__ import annotations

from typing import Any

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

_OP = "group_gemm"
_Sizes = tuple[tuple[int, int, int], ...]


def _case(dtype: str, sizes: _Sizes, tb: bool = False, **more: Any) -> Case:
    most = max(sizes)
    tags = ["tb" if tb else "", more.get("layout", ""), more.get("data", "")]
    name = "-".join([dtype, f"{len(sizes)}of{'x'.join(map(str, most))}", *(tag for tag in tags if tag)])
    shape = tuple(extent for size in sizes for extent in size)
    return Case(_OP, name, dtype, shape, params=(("transpose_b", tb),), **more)


def _all() -> list[Case]:
    small: _Sizes = ((64, 48, 32), (17, 33, 65), (130, 128, 40))
    found = [_case("f16", small, tb, quick=not tb, structural=False) for tb in (False, True)]
    # One kernel serves every list: what decides a dtype's machine code is transpose_b and whether all extents and
    # strides are multiples of 16 (the first and the last structural case here) or not. The smallest comes first: each
    # of its assemblies takes a minute.
    odd: _Sizes = ((17, 33, 65), (64, 48, 32))
    found += [_case("f16", ((64, 48, 32),), quick=True), *(_case("f16", odd, tb) for tb in (False, True))]
    found += [
        _case("bf16", small, structural=False),
        _case("f32", ((40, 40, 40), (64, 33, 70)), structural=False),
        _case("f16", ((100, 70, 90),), True, structural=False),
        _case("f16", ((1, 1, 1), (1, 300, 5), (200, 1, 64), (3, 3, 3), (129, 129, 129)), structural=False),
        _case("f16", ((64, 64, 64), (48, 32, 80)), data="nan", structural=False),
        _case("f16", ((64, 64, 64), (48, 32, 80)), layout="padded", structural=False),
        _case("f16", ((64, 64, 64), (48, 32, 80)), data="positive", structural=False),
    ]
    # TileGym's own test: four groups of 128 to 1024, positive matrices.
    mixed: _Sizes = ((128, 256, 128), (256, 128, 512), (512, 1024, 256), (1024, 512, 1024))
    found += [_case("f16", mixed, tb, data="positive", structural=tb) for tb in (False, True)]
    return found + [
        _case("f16", ((m, n, k),) * groups, tb, perf=True, structural=False)
        for groups in (1, 4, 16)
        for m, n, k in ((2048, 2048, 2048), (2048, 8192, 2048), (8192, 2048, 8192), (8192, 8192, 8192))
        for tb in (False, True)
    ]


class GroupGemm(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance = TOLERANCE
    nan_policy = NAN_POLICY
    rounding_policy = ROUNDING_POLICY

    @staticmethod
    def sizes(case: Case) -> list[tuple[int, int, int]]:
        """M, N, K of each product."""
        shape = case.shape
        return [(shape[at], shape[at + 1], shape[at + 2]) for at in range(0, len(shape), 3)]

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """A list of ``a`` and one of ``b``."""
        other = "randn" if case.data == "nan" else case.data
        a, b = [], []
        for index, (m, n, k) in enumerate(self.sizes(case)):
            b_shape = (n, k) if case.kwargs["transpose_b"] else (k, n)
            a.append(tensor((m, k), case.dtype, device, seed + 2 * index, layout=case.layout, data=case.data))
            b.append(tensor(b_shape, case.dtype, device, seed + 2 * index + 1, layout=case.layout, data=other))
        return Call((a, b), case.kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """In fp64."""
        import torch

        return tuple(a.to(torch.float64) @ b.to(torch.float64) for a, b in self._operands(call))

    def torch(self, case: Case, call: Call) -> Any:
        """One cuBLAS call for each product."""
        return tuple(a @ b for a, b in self._operands(call))

    @staticmethod
    def _operands(call: Call) -> list[tuple[Any, Any]]:
        transposed = call.kwargs["transpose_b"]
        return [(a, b.t() if transposed else b) for a, b in zip(*call.args, strict=True)]

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """Every product."""
        return tuple(result)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The absolute part grows with sqrt(K) of its product."""
        return product_tolerance(case.dtype, self.sizes(case)[output][2], case.data)

    def bytes_moved(self, case: Case) -> int:
        """All operands read once, all products written once."""
        return sum(m * k + k * n + m * n for m, n, k in self.sizes(case)) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """2 M N K for each product."""
        return sum(2 * m * n * k for m, n, k in self.sizes(case))


SUITE = GroupGemm()
