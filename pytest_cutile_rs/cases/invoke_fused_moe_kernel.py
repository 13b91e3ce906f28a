# SPDX-License-Identifier: MIT
"""Parity of `invoke_fused_moe_kernel`: each token's product with the matrices of the experts chosen for it.

The shape is (tokens, experts chosen per token, experts, N, K); K is a multiple of the 64 that a step takes. The first
product of a layer reads a token once for all its experts; the second (``second``) has a row for each of them and is
weighted. The result is written into the third argument. fp8 and int8 arguments are ignored by cuTile Python: no case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._experts import chosen
from pytest_cutile_rs.cases._experts import padded_blocks
from pytest_cutile_rs.cases._products import NAN_POLICY
from pytest_cutile_rs.cases._products import product_tolerance
from pytest_cutile_rs.cases._tensors import tensor

_OP = "invoke_fused_moe_kernel"
_CONFIG = {"TILE_SIZE_M": 128, "TILE_SIZE_N": 128, "TILE_SIZE_K": 64, "GROUP_SIZE_M": 32}


def _case(dtype: str, tokens: int, topk: int, experts: int, n: int, k: int, second: bool = False, **more: Any) -> Case:
    used = more.pop("used", 0)
    shape = (tokens, topk, experts, n, k)
    tags = ["second" if second else "", f"used{used}" if used else "", more.get("data", "")]
    name = "-".join([dtype, "x".join(map(str, shape)), *(tag for tag in tags if tag)])
    return Case(_OP, name, dtype, shape, params=(("second", second), ("used", used)), **more)


def _layer(dtype: str, tokens: int, hidden: int, inner: int, experts: int, topk: int, **more: Any) -> list[Case]:
    """Both products of a layer, as `fused_moe` asks for them."""
    return [
        _case(dtype, tokens, topk, experts, 2 * inner, hidden, **more),
        _case(dtype, tokens, topk, experts, hidden, inner, second=True, **more),
    ]


def _all() -> list[Case]:
    found = [
        _case("bf16", 5, 2, 4, 96, 64, quick=True),
        _case("f16", 7, 3, 6, 200, 128, second=True, quick=True),
        _case("f16", 200, 1, 3, 64, 64, used=1, structural=False),
        _case("bf16", 150, 2, 5, 130, 192, used=2, structural=False),
        _case("f16", 1, 1, 1, 17, 64, structural=False),
        _case("f16", 9, 2, 4, 64, 64, data="nan", structural=False),
    ]
    # TileGym's own test of `fused_moe`: tokens, hidden size, inner size, experts, chosen.
    for sizes in ((16, 512, 256, 8, 2), (32, 1024, 512, 16, 4), (64, 1024, 512, 20, 8)):
        found += _layer("bf16", *sizes, structural=sizes[0] == 16)
    for sizes in (
        (64, 512, 256, 8, 2),
        (128, 1024, 512, 16, 4),
        (256, 2048, 1408, 32, 6),
        (512, 2048, 1408, 64, 6),
    ):
        found += _layer("f16", *sizes, perf=True, structural=sizes[0] == 64)
    return found


class InvokeFusedMoeKernel(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {dtype: product_tolerance(dtype, 1) for dtype in ("f16", "bf16")}
    nan_policy = NAN_POLICY
    rounding_policy = "fp32 accumulation, weighted in fp32, one rounding at the store"
    in_place = (2,)

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """All that the op takes, its own padding of the tokens' order included."""
        import torch

        tokens, topk, experts, n, k = case.shape
        second = bool(case.kwargs["second"])
        rows = tokens * topk if second else tokens
        a = tensor((rows, k), case.dtype, device, seed, data=case.data).mul_(0.5)
        b = tensor((experts, n, k), case.dtype, device, seed + 1).mul_(0.1)
        c = tensor((tokens, topk, n), case.dtype, device, seed, data="empty")
        weights = tensor((tokens, topk), "f32", device, seed + 2).softmax(dim=1).to(a.dtype)
        ids = chosen(tokens, experts, topk, seed + 3, int(str(case.kwargs["used"])))
        places, owners = padded_blocks(ids, experts, _CONFIG["TILE_SIZE_M"])
        count = torch.tensor([places.numel()], dtype=torch.int32)
        moved = [routing.to(device) for routing in (ids, places, owners, count)]
        settings = (second, 1 if second else topk, dict(_CONFIG))
        kwargs = {"compute_type": a.dtype, "use_fp8_w8a8": False, "use_int8_w8a16": False}
        return Call((a, b, c, None, None, weights, *moved, *settings), kwargs)

    def call(self, call: Call, backend: str | None = None) -> Any:
        """Through `tilegym.ops.moe_interface`, where the dispatcher's function lives."""
        from tilegym.ops import moe_interface

        chosen_backend = {} if backend is None else {"backend": backend}
        return moe_interface.invoke_fused_moe_kernel(*call.args, **chosen_backend, **call.kwargs)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The third argument."""
        return (call.args[2],)

    def reference(self, case: Case, call: Call) -> Any:
        """Expert by expert, in fp64."""
        import torch

        return self._product(case, call, torch.float64)

    def torch(self, case: Case, call: Call) -> Any:
        """One cuBLAS product for each expert, over the tokens it serves."""
        return self._product(case, call, call.args[0].dtype)

    @staticmethod
    def _product(case: Case, call: Call, dtype: Any) -> Any:
        a, b, c, _, _, weights, ids = call.args[:7]
        tokens, topk, experts, n, _ = case.shape
        second = case.kwargs["second"]
        rows = a.to(dtype) if second else a.to(dtype).repeat_interleave(topk, dim=0)
        found = c.new_zeros((tokens * topk, n), dtype=dtype)
        flat = ids.flatten()
        for expert in range(experts):
            served = (flat == expert).nonzero()[:, 0]
            found[served] = rows[served] @ b[expert].to(dtype).t()
        if second:
            found = found * weights.to(dtype).view(-1, 1)
        return found.view(tokens, topk, n)

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The absolute part grows with sqrt(K); operands are 0.5 and 0.1 of normal."""
        return product_tolerance(case.dtype, case.shape[4])

    def bytes_moved(self, case: Case) -> int:
        """The rows, the matrices of experts that are chosen, and the result once."""
        tokens, topk, experts, n, k = case.shape
        rows = tokens * topk if case.kwargs["second"] else tokens
        served = min(int(str(case.kwargs["used"])) or experts, tokens * topk)
        return (rows * k + served * n * k + tokens * topk * n) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """2 N K for each choice."""
        return 2 * math.prod(case.shape) // case.shape[2]


SUITE = InvokeFusedMoeKernel()
