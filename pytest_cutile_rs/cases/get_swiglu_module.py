# SPDX-License-Identifier: MIT
"""Parity of the module that `get_swiglu_module` returns: down(silu(gate(x)) * up(x)).

The shape is (rows, hidden, inner). The three projections are `torch.nn.Linear`; the kernel is `get_swiglu`'s.
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
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases
from pytest_cutile_rs.cases._build import options
from pytest_cutile_rs.cases._formula import UPSTREAM
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._formula import factory
from pytest_cutile_rs.cases._swiglu import swiglu
from pytest_cutile_rs.cases._tensors import scaled
from pytest_cutile_rs.cases._tensors import tensor

_OP = "get_swiglu_module"
_NAMES = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
_BACK: dict[str, Any] = {"params": {BACKWARD: True}}
_WHY = "three matrix products: every one is rounded to the storage dtype, and so is silu before its product"


def _listed() -> list[Case]:
    """TileGym tests the module through a model alone; the shapes are ours."""
    shapes = [(16, 64, 128), (33, 96, 257), (1, 64, 1000), (64, 128, 256)]
    found = [case(_OP, dtype, shape, quick=shape == (16, 64, 128)) for shape in shapes for dtype in DTYPES]
    found += cases(_OP, DTYPES, [(16, 64, 128), (5, 32, 33)], **_BACK)
    found += cases(_OP, ("f16", "bf16"), [(4096, 4096, 11008)], perf=True)
    found += [
        case(_OP, dtype, (6, 64, 96), data=data, structural=False)
        for data in ("nan", "wide", "constant", "tiny", "signed-zeros")
        for dtype in DTYPES
    ]
    found += cases(_OP, DTYPES, [(1, 1, 1), (7, 16, 3), (2, 32, 1025), (3, 17, 40)], structural=False)
    found.append(case(_OP, "f32", (0, 64, 128), structural=False))
    act = {"hidden_act": "relu"}
    return [*found, case(_OP, "f32", (4, 8, 8), params=act, tag="relu", raises="(?i)relu", structural=False)]


class GetSwigluModule(FormulaSuite):
    """See the module."""

    name = _OP
    cases = tuple(_listed())
    differentiable = (0, 1, 2, 3)
    recorded_on = "meta"
    tolerance: ClassVar[Mapping[str, Tolerance]] = {
        "f32": Tolerance(1e-4, 1e-5, "fp32 sums in another order"),
        "f16": Tolerance(1e-2, 5e-3, f"{_WHY} (11 bits)"),
        "bf16": Tolerance(1e-2, 2e-2, f"{_WHY} (8 bits)"),
    }
    nan_policy = "a NaN in x makes its row NaN"
    rounding_policy = "the projections' and get_swiglu's"

    def calls_torch(self, case: Case) -> bool:
        """The three linear layers."""
        return True

    def inputs(self, case: Case, device: str, seed: int) -> Call:
        """x, the three weights, and the gradient of the result in a backward case."""
        rows, hidden, inner = case.shape
        x = tensor((rows, hidden), case.dtype, device, seed, data=case.data)
        plain = "empty" if case.data == "empty" else "randn"
        shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
        weights = [
            scaled(tensor(shape, case.dtype, device, seed + n + 1, data=plain), shape[1] ** -0.5)
            for n, shape in enumerate(shapes)
        ]
        upstream = tensor((rows, hidden), case.dtype, device, seed + 4, data=plain)
        return Call((x, *weights), {UPSTREAM: upstream} if case.kwargs.get(BACKWARD) else options(case))

    def formula(self, case: Case, call: Call) -> Any:
        """Three products and SwiGLU."""
        x, gate, up, down = call.args
        return swiglu(x @ gate.t(), x @ up.t()) @ down.t()

    def invoke(self, call: Call, backend: str | None) -> Any:
        """Runs the module with the given weights."""
        from types import SimpleNamespace

        import torch

        x, *weights = call.args
        inner, hidden = weights[0].shape
        act = call.kwargs.get("hidden_act", "silu")
        config = SimpleNamespace(hidden_size=hidden, intermediate_size=inner, hidden_act=act)
        with torch.device("meta"):  # its own weights are never used
            module = factory(self, backend)(config)
        return torch.func.functional_call(module, dict(zip(_NAMES, weights, strict=True)), (x,))

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """Wide data scales results by 30 squared.

        A weight's gradient is a sum over rows of products with x, up to 4: one rounding of a factor that falls the
        other way is worth two units of the sum's.
        """
        base = self.tolerance[case.dtype]
        rows = max(case.shape[0], 1)
        scale = 900.0 if case.data == "wide" else 2.0 * math.sqrt(rows) if output in (2, 3, 4) else 1.0
        return Tolerance(base.rtol, base.atol * scale, base.why)

    def bytes_moved(self, case: Case) -> int:
        """x and the weights read, the three inner tensors written and read, the result written."""
        rows, hidden, inner = case.shape
        runs = 3 if case.kwargs.get(BACKWARD) else 1
        return runs * (2 * rows * hidden + 3 * hidden * inner + 6 * rows * inner) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Three products; twice as many backward."""
        return 6 * math.prod(case.shape) * (3 if case.kwargs.get(BACKWARD) else 1)


SUITE = GetSwigluModule()
