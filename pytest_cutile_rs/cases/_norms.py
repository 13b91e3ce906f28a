# SPDX-License-Identifier: MIT
"""What the normalisations share: their definitions, weights and tolerances."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._formula import FormulaSuite
from pytest_cutile_rs.cases._tensors import scaled
from pytest_cutile_rs.cases._tensors import tensor

if TYPE_CHECKING:
    import torch

EPS = 1e-5
I32 = r"(input|x) has extent 2147483648 on axis"
"""What a refusal of rows or columns beyond 32 bits says."""

TOLERANCES: Mapping[str, Tolerance] = {
    "f32": Tolerance(1e-5, 1e-5, "fp32 sums in another order; results are around one"),
    "f16": Tolerance(1e-3, 2e-5, "computed in fp32, one rounding to 11 bits, doubled"),
    "bf16": Tolerance(8e-3, 2e-5, "computed in fp32, one rounding to 8 bits, doubled"),
}
"""TileGym's own: 5e-2 for rms_norm, 1e-2 for the layer norms."""
_SHIFTED = {
    "f32": TOLERANCES["f32"],
    "f16": Tolerance(1e-3, 4e-3, "weight + weight_shift is rounded to 11 bits and multiplies values up to 4"),
    "bf16": Tolerance(8e-3, 2e-2, "weight + weight_shift is rounded to 8 bits and multiplies values up to 4"),
}


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float, offset: float = 0.0) -> torch.Tensor:
    """x over the root of its mean square along the last axis, times offset + weight."""
    import torch

    return x * torch.rsqrt((x * x).mean(dim=-1, keepdim=True) + eps) * (offset + weight)


def moments(x: torch.Tensor, dims: tuple[int, ...], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and reciprocal standard deviation along ``dims``, which are kept."""
    import torch

    mean = x.mean(dim=dims, keepdim=True)
    return mean, torch.rsqrt(((x - mean) ** 2).mean(dim=dims, keepdim=True) + eps)


def weight_and_bias(case: Case, shape: tuple[int, ...], device: str, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Both of a layer norm: small random numbers."""
    data = "empty" if case.data == "empty" else "randn"
    weight = scaled(tensor(shape, case.dtype, device, seed + 1, data=data), 0.25)
    return weight, scaled(tensor(shape, case.dtype, device, seed + 2, data=data), 0.25)


def tolerance_of(case: Case) -> Tolerance:
    """By dtype; wider where weight + weight_shift is rounded."""
    return (_SHIFTED if case.kwargs.get("weight_shift") else TOLERANCES)[case.dtype]


class RmsNormSuite(FormulaSuite):
    """What `rms_norm` and the module made of it have in common; their last output is the weight's gradient."""

    def tolerance_for(self, case: Case, output: int = 0) -> Tolerance:
        """A gradient's absolute part grows with the size of what it sums, as fp32's noise does."""
        base = self.tolerance[case.dtype]
        terms = math.prod(case.shape[:-1]) if output == 2 else 1
        return Tolerance(base.rtol, base.atol * math.sqrt(max(terms, 1)), base.why)

    def bytes_moved(self, case: Case) -> int:
        """One read and one write; backward two reads and one write more."""
        return (5 if case.kwargs.get(BACKWARD) else 2) * math.prod(case.shape) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Square, sum, two products per element; ten more backward."""
        return (14 if case.kwargs.get(BACKWARD) else 4) * math.prod(case.shape)


class LayerNormSuite(FormulaSuite):
    """What the layer norms have in common."""

    def bytes_moved(self, case: Case) -> int:
        """One read and one write."""
        return 2 * math.prod(case.shape) * ITEMSIZE[case.dtype]

    def flops(self, case: Case) -> int:
        """Two sums, a square, a difference, two products and a sum per element."""
        return 8 * math.prod(case.shape)
