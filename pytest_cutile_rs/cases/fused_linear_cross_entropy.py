# SPDX-License-Identifier: MIT
"""Parity of `fused_linear_cross_entropy`, forward only: the cross entropy of x @ weight^T against targets, in fp32.

The shape is (rows, hidden, vocabulary) or (batch, length, hidden, vocabulary). The products are `torch.mm`; a kernel
reduces each chunk of logits (TileGym's writes the probabilities over them, which nobody reads; ours does not). With a
bias both run plain PyTorch, and no kernel at all.
"""

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
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._build import options
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import integers
from pytest_cutile_rs.cases._tensors import scaled
from pytest_cutile_rs.cases._tensors import tensor

_OP = "fused_linear_cross_entropy"
_HALF = ("f16", "bf16")
_I32 = r"fused_linear_cross_entropy: hidden_states has (extent|stride) \d+ .*32 bits"
_IGNORED = -100


def _listed() -> list[Case]:
    # TileGym's host code branches on data (are there ignored targets?), so that no kernel can be captured without any.
    found = [
        case(_OP, "bf16", (2, 64, 256, 2048), quick=True, structural=False),
        case(_OP, "f16", (2, 128, 256, 2048), quick=True, structural=False),
        case(_OP, "f16", (1, 256, 384, 4096), tag="sum", params={"reduction": "sum"}, structural=False),
    ]
    found += [
        case(_OP, dtype, (rows, 4096, 32000), perf=True, structural=False) for rows in (512, 4096) for dtype in _HALF
    ]
    odd = [(1, 64, 100), (3, 17, 33), (8, 32, 1), (9, 40, 4097), (33, 64, 5000), (2, 5, 48, 130)]
    found += [case(_OP, dtype, shape, structural=False) for shape in odd for dtype in DTYPES]
    found += [
        case(_OP, "f16", (2**31, 8, 8), raises=_I32, structural=False),
        case(_OP, "f16", (4, 8, 8), params={"chunk_size": 0}, raises="chunk_size is 0", structural=False),
        case(
            _OP, "f16", (4, 8, 8), tag="none", params={"reduction": "none"}, raises="reduction 'none'", structural=False
        ),
        case(_OP, "f32", (0, 8, 8), structural=False),
    ]
    found += [
        case(
            _OP,
            dtype,
            (50, 64, 500),
            tag=tag,
            params=params,
            structural=False,
            quick=(dtype, tag) == ("f16", "ignored"),
        )
        for tag, params in (
            ("ignored", {"ignored": "some"}),
            ("ignored-all", {"ignored": "all"}),
            ("ignored-0", {"ignored": "some", "ignore_index": 0}),
            ("chunks", {"chunk_size": 16}),
            ("chunks-sum", {"chunk_size": 16, "reduction": "sum", "ignored": "some"}),
            ("bias", {"bias": True}),
        )
        for dtype in DTYPES
    ]
    found += cases(_OP, _HALF, [(16, 64, 500)], layout="padded", structural=False)
    return found + [
        case(_OP, dtype, (16, 64, 500), data=data, structural=False, no_information_ok=data == "nan")
        for data in ("wide", "constant", "nan")
        for dtype in DTYPES
    ]


class FusedLinearCrossEntropy(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-5, 1e-5, "products of torch, of another order of sums than the reference's; sums in fp32"),
        "f16": Tolerance(2e-3, 4e-3, "logits of around one are rounded to 11 bits; losses are averaged"),
        "bf16": Tolerance(1e-2, 2e-2, "logits of around one are rounded to 8 bits; losses are averaged"),
    }
    nan_policy = "a NaN logit makes the loss NaN; without a counted target the mean is 0, not NaN"
    rounding_policy = "logits are rounded to the storage dtype; maximum, sums and losses in fp32"

    def calls_torch(self, case: Case) -> bool:
        """The product, and its workspace."""
        return True

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """Hidden states, weight, targets, and the bias when the case has one."""
        *lead, hidden, vocabulary = case.shape
        kwargs: dict[str, Any] = options(case)
        plain = "empty" if case.data == "empty" else "randn"
        x = tensor((*lead, hidden), case.dtype, device, seed, layout=case.layout, data=case.data)
        weight = scaled(tensor((vocabulary, hidden), case.dtype, device, seed + 1, data=plain), hidden**-0.5)
        target = integers(tuple(lead), "i64", device, seed + 2, 0, vocabulary)
        ignored = kwargs.pop("ignored", "")
        if ignored and device != "meta":
            target.view(-1)[:: 3 if ignored == "some" else 1] = kwargs.get("ignore_index", _IGNORED)
        if kwargs.pop("bias", False):
            kwargs["bias"] = tensor((vocabulary,), case.dtype, device, seed + 3, data=plain)
        return Call((x, weight, target), kwargs)

    def formula(self, case: Case, call: Call) -> Any:
        """Log-sum-exp minus the target's logit, summed or averaged over the targets that count."""
        import torch

        x, weight, target = call.args
        logits = x.reshape(-1, x.shape[-1]) @ weight.t()
        if "bias" in call.kwargs:
            logits = logits + call.kwargs["bias"]
        flat = target.reshape(-1)
        counted = flat != call.kwargs.get("ignore_index", _IGNORED)
        picked = logits.gather(1, flat.clamp(min=0).unsqueeze(1)).squeeze(1)
        loss = torch.where(counted, torch.logsumexp(logits, dim=1) - picked, 0.0).sum()
        return loss if call.kwargs.get("reduction") == "sum" else loss / counted.sum().clamp(min=1)

    def torch(self, case: Case, call: Call) -> Any:
        """`linear` and `cross_entropy`, through all the logits."""
        from torch.nn import functional

        x, weight, target = call.args
        kwargs = {name: value for name, value in call.kwargs.items() if name in ("ignore_index", "reduction")}
        logits = functional.linear(x, weight, call.kwargs.get("bias"))
        return functional.cross_entropy(logits.view(-1, weight.shape[0]), target.view(-1), **kwargs)

    def dtype_of(self, case: Case, output: int = 0) -> str:
        """fp32, except on plain PyTorch's way."""
        return case.dtype if case.kwargs.get("bias") else "f32"

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Wide data, thirty times as large, round to thirty times the error; a sum has as many errors as rows."""
        base = self.tolerance[case.dtype]
        scale = 30.0 if case.data == "wide" else 1.0
        if case.kwargs.get("reduction") == "sum":
            scale *= math.sqrt(math.prod(case.shape[:-2]))
        return Tolerance(base.rtol, base.atol * scale, base.why)

    def bytes_moved(self, case: Case) -> int:
        """Hidden states and weight read, logits written and read."""
        *lead, hidden, vocabulary = case.shape
        rows = math.prod(lead)
        return (rows * hidden + vocabulary * hidden + 2 * rows * vocabulary) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """The product."""
        return 2 * math.prod(case.shape)


SUITE = FusedLinearCrossEntropy()
