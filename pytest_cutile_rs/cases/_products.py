# SPDX-License-Identifier: MIT
"""What the suites of matrix products share: their tolerances."""

from __future__ import annotations

import math

from pytest_cutile_rs.case import Tolerance

TOLERANCE = {
    "f32": Tolerance(2e-3, 4e-3, "operands rounded to tf32 (11 bits); atol per sqrt(K), 6 sigma of that noise"),
    "f16": Tolerance(1e-3, 1e-4, "fp32 accumulation, one rounding to 11 bits; atol per sqrt(K), the tensor core's"),
    "bf16": Tolerance(8e-3, 1e-4, "fp32 accumulation, one rounding to 8 bits; atol per sqrt(K), the tensor core's"),
    "f8e4m3": Tolerance(6.3e-2, 1e-3, "fp32 accumulation, one rounding to 4 bits (2^-4), half the least subnormal"),
    "f8e5m2": Tolerance(
        0.126,
        6e-4,
        "one rounding to 3 bits (2^-3); atol per sqrt(K): Hopper's fp8 tensor cores drop low bits, 4e-4 measured",
    ),
}
POSITIVE = Tolerance(1e-3, 1e-8, "TileGym's own, for positive operands, whose sum of products cannot cancel")
ROUNDING_POLICY = "fp32 accumulation (f32 operands as tf32), one rounding at the store"
NAN_POLICY = "a NaN, or inf times zero, makes its row or column of the product NaN; padding lanes add nothing"


def product_tolerance(dtype: str, k: int, data: str = "randn") -> Tolerance:
    """Of a sum of K products, whose rounding noise grows with sqrt(K)."""
    if data == "positive" and dtype == "f16":
        return POSITIVE
    base = TOLERANCE[dtype]
    return Tolerance(base.rtol, base.atol * math.sqrt(max(k, 1)), base.why)
