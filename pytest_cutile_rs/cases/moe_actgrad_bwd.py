# SPDX-License-Identifier: MIT
"""Parity of `moe_actgrad_bwd`: the gradient through an expert's down projection and its activation.

The shape is (tokens, experts chosen per token, experts, hidden, inner size). Rows are choices in the order of their
experts. With ``y = dout[row] w2^T`` and the row's routing score ``s``, outputs are the gradient of the activation's
input ``s y act'(h)``, the weighted activation ``s act(h)``, and the score's gradient ``sum(y act(h))``; all are written
into arguments, the last one added up atomically in memory that the caller has zeroed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import ClassVar

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._experts import by_expert
from pytest_cutile_rs.cases._experts import chosen
from pytest_cutile_rs.cases._tensors import tensor

_OP = "moe_actgrad_bwd"
_GATED = ("swiglu", "geglu", "reglu")
_ACTIVATIONS = (*_GATED, "silu", "relu", "gelu", "relu_sq")


def _case(
    dtype: str, tokens: int, topk: int, experts: int, hidden: int, inner: int, activation: str, **more: Any
) -> Case:
    used = more.pop("used", 0)
    counted = more.pop("counted", True)
    shape = (tokens, topk, experts, hidden, inner)
    tags = [activation, f"used{used}" if used else "", "" if counted else "uncounted"]
    name = "-".join([dtype, "x".join(map(str, shape)), *(tag for tag in tags if tag)])
    params = (("activation", activation), ("used", used), ("counted", counted))
    return Case(_OP, name, dtype, shape, params=params, **more)


def _all() -> list[Case]:
    """TileGym has no test of it: these are ours."""
    found = [
        _case("bf16", 24, 2, 4, 64, 64, activation, structural=activation in ("swiglu", "relu_sq"), quick=quick)
        for activation in _ACTIVATIONS
        for quick in [activation in ("swiglu", "gelu")]
    ]
    found += [
        _case("f16", 40, 3, 5, 136, 200, "swiglu"),
        _case("f16", 30, 2, 4, 64, 96, "silu", structural=False),
        _case("bf16", 150, 2, 4, 64, 136, "geglu", used=2, structural=False),
        _case("f16", 1, 1, 3, 32, 16, "reglu", structural=False),
        _case("f16", 24, 2, 4, 64, 64, "swiglu", counted=False, structural=False),
    ]
    found += [
        _case("bf16", 4096, 8, 64, 2048, 1024, "swiglu", perf=True, structural=False),
        _case("bf16", 8192, 2, 8, 4096, 1792, "swiglu", perf=True, structural=False),
        _case("f16", 4096, 4, 32, 2048, 2048, "gelu", perf=True, structural=False),
    ]
    return found


def _function(activation: str) -> Callable[[Any], Any]:
    """The activation of (rows, inner), or of (rows, 2 inner) whose first half is the gate."""
    import torch

    functional = torch.nn.functional
    plain: dict[str, Callable[[Any], Any]] = {
        "silu": functional.silu,
        "relu": functional.relu,
        "gelu": functional.gelu,
        "relu_sq": lambda x: functional.relu(x).square(),
    }
    if activation not in _GATED:
        return plain[activation]
    gate = plain[{"swiglu": "silu", "geglu": "gelu", "reglu": "relu"}[activation]]

    def gated(x: Any) -> Any:
        first, second = x.chunk(2, dim=-1)
        return gate(first) * second

    return gated


class MoeActgradBwd(OpSuite):
    """See the module."""

    name = _OP
    cases = tuple(_all())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f16": Tolerance(2e-3, 2e-3, "fp32 sums, approximate tanh (2^-11), one rounding to 11 bits"),
        "bf16": Tolerance(8e-3, 2e-3, "fp32 sums, approximate tanh (2^-11), one rounding to 8 bits"),
    }
    nan_policy = "a NaN in a token's gradient makes its rows NaN"
    rounding_policy = "fp32 sums and activation, one rounding at each store; the score's gradient stays fp32"
    in_place = (3, 4, 7)

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """All that the op takes; ``max_tokens_per_expert`` unless the case leaves counting to the op."""
        tokens, topk, experts, hidden, inner = case.shape
        rows, activation = tokens * topk, str(case.kwargs["activation"])
        width = 2 * inner if activation in _GATED else inner
        dout = tensor((tokens, hidden), case.dtype, device, seed)
        h = tensor((rows, width), case.dtype, device, seed + 1)
        w2 = tensor((experts, inner, hidden), case.dtype, device, seed + 2).mul_(hidden**-0.5)
        scores = tensor((tokens, topk), "f32", device, seed + 3).softmax(dim=1).flatten()
        order, starts = by_expert(chosen(tokens, experts, topk, seed + 4, int(str(case.kwargs["used"]))), experts)
        dh = tensor((rows, width), case.dtype, device, seed, data="empty")
        ds = scores.new_zeros(rows)
        a_prime = tensor((rows, inner), case.dtype, device, seed, data="empty")
        most = int((starts[1:] - starts[:-1]).max()) if case.kwargs["counted"] else None
        routing = (starts.to(device), (order // topk).to(device), order.to(device))
        return Call((dout, h, w2, dh, ds, None, None, a_prime, scores, *routing, activation, most))

    def outputs(self, case: Case, call: Call, result: Any) -> tuple[Any, ...]:
        """The gradient of the activation's input, the weighted activation, the scores' gradient."""
        return call.args[3], call.args[7], call.args[4]

    def reference(self, case: Case, call: Call) -> Any:
        """Expert by expert, in fp64; the activation through autograd."""
        import torch

        return self._gradients(case, call, torch.float64)

    def torch(self, case: Case, call: Call) -> Any:
        """Expert by expert in the case's dtype; the activation through autograd."""
        return self._gradients(case, call, call.args[0].dtype)

    @staticmethod
    def _gradients(case: Case, call: Call, dtype: Any) -> tuple[Any, Any, Any]:
        import torch

        dout, h, w2, _, ds, _, _, _, scores, starts, gather, scatter, activation, _ = call.args
        y = h.new_empty((h.shape[0], w2.shape[1]), dtype=dtype)
        for expert in range(w2.shape[0]):
            own = slice(int(starts[expert]), int(starts[expert + 1]))
            y[own] = dout[gather[own].long()].to(dtype) @ w2[expert].to(dtype).t()
        score = scores[scatter.long()].to(dtype)[:, None]
        with torch.enable_grad():
            leaf = h.to(dtype, copy=True).requires_grad_()
            a = _function(activation)(leaf)
            (dh,) = torch.autograd.grad(a, leaf, y * score)
        a = a.detach()
        return dh, a * score, (y * a).sum(dim=1, dtype=torch.promote_types(dtype, ds.dtype))

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """The scores' gradient is f32."""
        return "f32" if output == 2 else case.dtype

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """That of the scores' gradient grows with the root of its number of terms."""
        base = self.tolerance[case.dtype]
        if output < 2:
            return base
        return Tolerance(2e-3, 1e-3 * math.sqrt(case.shape[4]), "approximate tanh (2^-11) in each of its terms")

    def bytes_moved(self, case: Case) -> int:
        """The tokens' gradients, the matrices, h, its gradient and the weighted activation once."""
        tokens, topk, experts, hidden, inner = case.shape
        width = 2 * inner if case.kwargs["activation"] in _GATED else inner
        elements = tokens * hidden + experts * inner * hidden + tokens * topk * (2 * width + inner)
        return elements * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """2 H I for each choice."""
        tokens, topk, _, hidden, inner = case.shape
        return 2 * tokens * topk * hidden * inner


SUITE = MoeActgradBwd()
