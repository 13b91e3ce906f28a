# SPDX-License-Identifier: MIT
"""Parity of `fmha_backward`: attention that can be differentiated; forward and backward are one case.

Outputs are the result and the gradients of queries, keys and values. The shape is (batch, heads, key heads, queries,
keys, head size). TileGym registers it without a function in `tilegym.ops`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._attention import TOLERANCE
from pytest_cutile_rs.cases._attention_suite import AttentionSuite
from pytest_cutile_rs.cases._attention_suite import attention_case
from pytest_cutile_rs.cases._tensors import tensor

_OP = "fmha_backward"


def _case(dtype: str, heads: tuple[int, int, int], length: int, dim: int = 64, full: bool = False, **more: Any) -> Case:
    tag = "full" if full else "causal"
    return attention_case(_OP, dtype, heads, length, length, dim, tag, params={"is_causal": not full}, **more)


def _all() -> list[Case]:
    # TileGym's own test, f16 and bf16.
    found = [
        _case("f16", (1, 1, 1), 64, quick=True),
        _case("bf16", (1, 1, 1), 64),
        _case("f16", (1, 4, 4), 127),
        _case("f16", (1, 32, 32), 128, structural=False),
        _case("f16", (2, 8, 8), 256, structural=False),
        _case("f16", (2, 8, 8), 512, 128, structural=False),
        _case("bf16", (2, 8, 8), 2047, 128, structural=False),
        _case("f16", (1, 8, 4), 128),
        _case("bf16", (1, 8, 1), 128, structural=False),
    ]
    found += [
        _case("f16", (1, 2, 2), 96, full=True),
        _case("bf16", (2, 2, 1), 64, 32, full=True, structural=False),
        _case("f16", (1, 2, 1), 65, full=True, structural=False),
        _case("bf16", (1, 2, 2), 70, 128),
        _case("f16", (1, 1, 1), 33, 256, structural=False),
        _case("f16", (1, 1, 1), 1, structural=False),
    ]
    return found + [
        _case(dtype, (4, 32, 32), length, dim, full=full, perf=True, structural=False)
        for dtype in ("f16", "bf16")
        for dim in (64, 128)
        for length in (1024, 4096)
        for full in (False, True)
    ]


class FmhaBackward(AttentionSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    gradient: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(5e-3, 5e-3, "probabilities and their gradients rounded to 11 bits, summed over the queries"),
        "bf16": Tolerance(2e-2, 3e-2, "probabilities and their gradients rounded to 8 bits, summed over the queries"),
    }

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """q, k, v, and the result's gradient, which `call` hands to the backward."""
        batch, heads, _, queries, _, dim = case.shape
        gradient = tensor((batch, heads, queries, dim), case.dtype, device, seed + 3)
        return Call((*self.qkv(case, device, seed), gradient), case.kwargs)

    def call(self, call: Call, backend: str | None = None) -> Any:
        """Runs the registered implementation and its backward."""
        from tilegym.backend import dispatch

        def fmha_backward(*args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError("fmha_backward is not implemented for this backend")

        op = dispatch(_OP)(fmha_backward)
        chosen = {} if backend is None else {"backend": backend}
        return self._differentiated(lambda q, k, v: op(q, k, v, **chosen, **call.kwargs), *call.args)

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The result and three gradients."""
        return tuple(result)

    def reference(self, case: Case, call: Call) -> Any:
        """Autograd's, through the definition in fp64."""
        import torch

        def attention(q: Any, k: Any, v: Any) -> Any:
            return AttentionSuite.reference(self, case, Call((q, k, v), call.kwargs))

        return self._differentiated(attention, *(operand.to(torch.float64) for operand in call.args))

    def torch(self, case: Case, call: Call) -> Any:
        """`scaled_dot_product_attention` and its backward."""

        def attention(q: Any, k: Any, v: Any) -> Any:
            return AttentionSuite.torch(self, case, Call((q, k, v), call.kwargs))

        return self._differentiated(attention, *call.args)

    @staticmethod
    def _differentiated(attention: Any, q: Any, k: Any, v: Any, gradient: Any) -> tuple[Any, ...]:
        import torch

        with torch.enable_grad():
            leaves = [operand.detach().requires_grad_() for operand in (q, k, v)]
            result = attention(*leaves)
            return (result.detach(), *torch.autograd.grad(result, leaves, gradient))

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """A gradient's is wider: two more roundings, and sums over all queries."""
        return self.gradient[case.dtype] if output else TOLERANCE[case.dtype]

    def bytes_moved(self, case: Case) -> int:
        """Forward, then q, k, v, result and its gradient again, and three gradients."""
        batch, heads, kv_heads, queries, keys, dim = case.shape
        own, other = heads * queries, kv_heads * keys
        return batch * dim * (2 * own + 2 * other + 4 * own + 4 * other) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Two products forward, five backward."""
        return super().flops(case) * 7 // 2


SUITE = FmhaBackward()
