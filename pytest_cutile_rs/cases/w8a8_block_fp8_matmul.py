# SPDX-License-Identifier: MIT
"""Parity of `w8a8_block_fp8_matmul`: a @ b^T of fp8 matrices with one scale per block of K.

The shape is (M, N, K): ``a`` is (M, K) with a scale per row and block of K, ``b`` is (N, K) with one per block of N and
of K. K is a multiple of the block: cuTile Python's tile loads name no padding for a rest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._tensors import tensor

_OP = "w8a8_block_fp8_matmul"
_BLOCK = 128


def _case(
    out: str,
    m: int,
    n: int,
    k: int,
    tma: bool | None = None,
    block: tuple[int, int] = (_BLOCK, _BLOCK),
    **more: Any,
) -> Case:
    tags = [
        {None: "", True: "tma", False: "gather"}[tma],
        "" if block == (_BLOCK, _BLOCK) else f"block{block[0]}x{block[1]}",
        more.get("data", ""),
    ]
    name = "-".join(["f8e4m3", out, f"{m}x{n}x{k}", *(tag for tag in tags if tag)])
    params = (("output_dtype", out), ("use_tma", tma), ("block_size", block))
    return Case(_OP, name, "f8e4m3", (m, n, k), params=params, **more)


def _all() -> list[Case]:
    """TileGym has no test of it: these are ours."""
    found = [
        _case("f16", 16, 128, 256, quick=True),
        _case("f16", 33, 200, 256, tma=True),
        _case("f16", 33, 200, 256, tma=False),
        _case("bf16", 64, 256, 128),
        _case("f32", 40, 130, 384),
        _case("f16", 1, 128, 128, structural=False),
        _case("bf16", 150, 64, 512, block=(64, 64), structural=False),
        _case("f32", 17, 96, 128, tma=True, block=(32, 64), structural=False),
        _case("f16", 20, 128, 256, data="nan", structural=False),
    ]
    # The projections of DeepSeek V3, for a decode step and a prefill.
    return found + [
        _case("bf16", m, n, k, perf=True, structural=False)
        for m in (1, 64, 4096)
        for n, k in ((2112, 7168), (24576, 1536), (7168, 16384), (4096, 7168), (7168, 2048))
    ]


class W8a8BlockFp8Matmul(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-3, 2e-4, "exact products; Hopper adds them with 14 bits in a block; atol per sqrt(K)"),
        "f16": Tolerance(1e-3, 2e-4, "as f32, then one rounding to 11 bits"),
        "bf16": Tolerance(8e-3, 2e-4, "as f32, then one rounding to 8 bits"),
    }
    nan_policy = "a NaN makes its row or column of the product NaN"
    rounding_policy = "fp32 sums per block, scaled in fp32, one rounding at the store"

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """``a``, ``b`` and their scales."""
        import torch

        m, n, k = case.shape
        params = case.kwargs
        block_n, block_k = self._block(case)
        a = tensor((m, k), "f8e4m3", device, seed, data=case.data)
        b = tensor((n, k), "f8e4m3", device, seed + 1)
        # Scales near 1/4 each keep a sum of a few hundred products near one.
        steps, wide = math.ceil(k / block_k), math.ceil(n / block_n)
        a_scale, b_scale = (
            tensor((extent, steps), "f32", device, seed + extra).abs_().mul_(0.25).add_(0.1)
            for extent, extra in ((m, 2), (wide, 3))
        )
        kwargs = {
            "block_size": [block_n, block_k],
            "output_dtype": getattr(torch, TORCH_DTYPES[self.dtype_of(case)]),
            "use_tma": params["use_tma"],
        }
        return Call((a, b, a_scale, b_scale), kwargs)

    @staticmethod
    def _block(case: Case) -> tuple[int, int]:
        block = case.kwargs["block_size"]
        assert isinstance(block, tuple)
        return int(block[0]), int(block[1])

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The case's output dtype."""
        return str(case.kwargs["output_dtype"])

    def reference(self, case: Case, call: Call) -> Any:
        """Of the scaled matrices, in fp64."""
        import torch

        a, b = self._scaled(case, call, torch.float64)
        return a @ b.t()

    def torch(self, case: Case, call: Call) -> Any:
        """Both matrices scaled into the output dtype, then cuBLAS."""
        a, b = self._scaled(case, call, call.kwargs["output_dtype"])
        return a @ b.t()

    def _scaled(self, case: Case, call: Call, dtype: Any) -> tuple[Any, Any]:
        import torch

        a, b, a_scale, b_scale = call.args
        block_n, block_k = self._block(case)
        wide = dtype if dtype == torch.float64 else torch.float32
        along_k = (x.to(wide).repeat_interleave(block_k, dim=1)[:, : a.shape[1]] for x in (a_scale, b_scale))
        of_a, of_b = along_k
        of_b = of_b.repeat_interleave(block_n, dim=0)[: b.shape[0]]
        return (a.to(wide) * of_a).to(dtype), (b.to(wide) * of_b).to(dtype)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The absolute part grows with sqrt(K)."""
        base = self.tolerance[self.dtype_of(case)]
        return Tolerance(base.rtol, base.atol * math.sqrt(case.shape[2]), base.why)

    def bytes_moved(self, case: Case) -> int:
        """Matrices and scales read once, the product written once."""
        m, n, k = case.shape
        block_n, block_k = self._block(case)
        scales = 4 * math.ceil(k / block_k) * (m + math.ceil(n / block_n))
        return (m + n) * k + scales + m * n * ITEMSIZE[self.dtype_of(case)]

    def flops(self, case: Case) -> int:
        """2 M N K."""
        m, n, k = case.shape
        return 2 * m * n * k


SUITE = W8a8BlockFp8Matmul()
