# SPDX-License-Identifier: MIT
"""GELU's two definitions, and what TileGym's kernels may differ from them by."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_cutile_rs.case import Tolerance

if TYPE_CHECKING:
    import torch

MODES = ("none", "tanh")

TOLERANCES = {
    ("none", "f32"): Tolerance(0.0, 1.5e-3, "the normal distribution function is a tanh polynomial, off by up to 5e-4"),
    ("none", "f16"): Tolerance(2e-3, 4e-3, "the same, computed in f16: 1 + tanh cancels, 2^-11 per step"),
    ("none", "bf16"): Tolerance(1e-2, 2e-2, "the same, computed in bf16: 1 + tanh cancels, 2^-8 per step"),
    ("tanh", "f32"): Tolerance(1e-5, 1e-6, "1 + tanh cancels for negative x: a few 2^-24 absolute"),
    ("tanh", "f16"): Tolerance(2e-3, 4e-3, "computed in f16: 1 + tanh cancels, 2^-11 per step"),
    ("tanh", "bf16"): Tolerance(1e-2, 2e-2, "computed in bf16: 1 + tanh cancels, 2^-8 per step"),
}
"""By approximation and dtype, for arguments and factors around one; TileGym's own is 1e-2 for both kinds."""


def gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    """x times the normal distribution function of x, or its tanh approximation."""
    import torch

    if approximate == "none":
        return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
