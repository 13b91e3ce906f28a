# SPDX-License-Identifier: MIT
"""SwiGLU's definition and tolerances, for the function and the module around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cutile_rs.case import Tolerance

if TYPE_CHECKING:
    import torch

TOLERANCES = {
    "f32": Tolerance(1e-5, 1e-6, "exp and reciprocal are the approximate ones; the exponent's argument has 24 bits"),
    "f16": Tolerance(2e-3, 1e-5, "computed in fp32; silu and then the product are rounded to 11 bits"),
    "bf16": Tolerance(1e-2, 1e-5, "computed in fp32; silu and then the product are rounded to 8 bits"),
}
"""TileGym's own is 1e-2 for both kinds."""


def of_the_gate(base: Tolerance, scale: float = 1.0) -> Tolerance:
    """The tolerance of the gate's gradient: a sum of two terms around ``scale`` that cancel around -1.28."""
    return Tolerance(
        base.rtol, max(base.atol, 4e-6 * scale), f"{base.why}; terms of the derivative cancel around -1.28"
    )


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Silu of the gate times the other."""
    import torch

    return gate * torch.sigmoid(gate) * up
