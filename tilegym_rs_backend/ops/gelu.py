# SPDX-License-Identifier: MIT
"""gelu and its gradient; kernels in `rust/src/ops/gelu.rs`.

TileGym's op `gelu`. "none": x times the normal distribution function of x; "tanh": x * (1 + tanh(sqrt(2 / pi) * (x +
0.044715 * x^3))) / 2. Both in f32; TileGym takes a tanh of another argument for the distribution function too, and
computes in the tensor's dtype.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from ._common import differentiates
from ._common import inspect
from ._flat import Elementwise
from ._gelu_space import BACKWARD
from ._gelu_space import SPACE

OP = "gelu"
_CONSTANTS = {name: (("TANH", int(name == "tanh")),) for name in ("none", "tanh")}

_gelu = Elementwise(OP, "input", SPACE)
_backward = Elementwise(OP, "input", BACKWARD)


def gelu(input: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Return gelu(input).

    Args:
        input: f32, f16 or bf16, any shape and strides (one with gaps or overlaps is copied first).
        approximate: ``"none"`` or ``"tanh"``, see the module.

    Returns:
        A tensor of the input's shape and dtype, with the strides of ``torch.empty_like(input)``. NaN propagates;
        gelu(-inf) is NaN (-inf * 0), as in torch.

    Raises:
        TypeError: not a tensor.
        ValueError: another approximation.
        LaunchError: another dtype, or a device without our kernels.
    """
    inspect(input, "input", OP)
    constants = by_tanh(OP, approximate)
    if differentiates(input):
        result: torch.Tensor = _Gelu.apply(input, constants)  # type: ignore[no-untyped-call]
        return result
    return _gelu(input, constants=constants)


def by_tanh(op: str, approximate: str) -> tuple[tuple[str, int], ...]:
    """Return the kernels' constant for an approximation; raises ValueError for an unknown one."""
    found = _CONSTANTS.get(approximate)
    if found is None:
        raise ValueError(f"{op}: approximate is 'none' or 'tanh', got {approximate!r}")
    return found


class _Gelu(torch.autograd.Function):
    """Saves the input alone."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, constants: tuple[tuple[str, int], ...]) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.constants = constants
        return _gelu(x, constants=constants)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        (x,) = ctx.saved_tensors
        return _backward(x, grads[0].resolve_neg(), constants=ctx.constants), None


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for a shape of any number of axes, on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
