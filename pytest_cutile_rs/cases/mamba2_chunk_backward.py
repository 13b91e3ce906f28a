# SPDX-License-Identifier: MIT
"""Parity of `mamba2_chunk_backward`; the shape is (batch, tokens, heads, groups, P, N). See `_ssd`.

Outputs are the gradients of x, a, b, c, d, dt and the first state, given those of the result and the last state.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._ssd import SsdSuite
from pytest_cutile_rs.cases._ssd import ssd_case
from pytest_cutile_rs.cases._tensors import tensor

_OP = "mamba2_chunk_backward"
_GRADIENTS = ("x", "a", "b", "c", "d", "dt", "state")


def _case(dtype: str, *shape: int, chunk: int = 64, **more: Any) -> Case:
    return ssd_case(_OP, dtype, shape, chunk, **more)


def _all() -> list[Case]:
    """TileGym has no test of it: these are ours."""
    return [
        _case("bf16", 1, 64, 4, 4, 64, 64, quick=True),
        _case("f16", 1, 128, 4, 4, 64, 64),
        _case("bf16", 1, 128, 4, 2, 64, 128),
        _case("f16", 2, 64, 4, 1, 32, 64, structural=False),
        _case("f16", 1, 64, 4, 4, 64, 64, chunk=32, structural=False),
    ] + [
        _case(dtype, batch, 2048, 64, 8, 64, 128, perf=True, structural=False)
        for dtype in ("bf16", "f16")
        for batch in (1, 4)
    ]


class Mamba2ChunkBackward(SsdSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(5e-3, 1e-2, "operands of products and states between chunks rounded to 11 bits"),
        "bf16": Tolerance(2e-2, 6e-2, "operands of products and states between chunks rounded to 8 bits"),
    }

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """The forward's operands, the result's gradient and the last state's."""
        batch, tokens, heads, _, p, n = case.shape
        result = tensor((batch, tokens, heads, p), case.dtype, device, seed + 7)
        state = tensor((batch, heads, p, n), "f32", device, seed + 8)
        return Call((*self.operands(case, device, seed), result, state), case.kwargs)

    def reference(self, case: Case, call: Call) -> Any:
        """Autograd's, in fp64."""
        import torch

        return self._differentiated(self.exact(case), [operand.to(torch.float64) for operand in call.args])

    def torch(self, case: Case, call: Call) -> Any:
        """Autograd's, through products over chunks in fp32."""

        def forward(*operands: Any) -> tuple[Any, Any]:
            found, state = self.chunked(case, *operands)
            return found.to(operands[0].dtype), state

        return self._differentiated(forward, list(call.args))

    @staticmethod
    def _differentiated(forward: Callable[..., tuple[Any, Any]], operands: list[Any]) -> tuple[Any, ...]:
        import torch

        with torch.enable_grad():
            leaves = [operand.detach().requires_grad_() for operand in operands[:7]]
            return tuple(torch.autograd.grad(forward(*leaves), leaves, operands[7:]))

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """All seven gradients."""
        return tuple(result)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """Those of x, b and c have their dtype, the others are f32."""
        return case.dtype if _GRADIENTS[output] in ("x", "b", "c") else "f32"

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """The absolute part grows with the root of the number of products that a gradient is the sum of."""
        batch, tokens, heads, groups, p, _ = case.shape
        base = self.tolerance[case.dtype]
        terms = {"a": batch * tokens * p, "d": batch * tokens * p, "dt": p, "b": heads // groups, "c": heads // groups}
        return Tolerance(base.rtol, base.atol * terms.get(_GRADIENTS[output], 1) ** 0.5, base.why)

    def bytes_moved(self, case: Case) -> int:
        """The forward's operands again, and a gradient of each."""
        return 2 * super().bytes_moved(case)

    def flops(self, case: Case) -> int:
        """The forward once more for the states, and two products for each of its own."""
        return 3 * super().flops(case)


SUITE = Mamba2ChunkBackward()
