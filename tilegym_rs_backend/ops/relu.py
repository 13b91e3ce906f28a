# SPDX-License-Identifier: MIT
"""max(x, 0); kernel in `rust/src/ops/relu.rs`.

TileGym's op `relu`, forward only.
"""

from __future__ import annotations

import torch

from ._common import differentiates
from ._common import forward_only
from ._common import inspect
from ._flat import Elementwise
from ._relu_space import SPACE

OP = "relu"

_relu = Elementwise(OP, "x", SPACE)


def relu(x: torch.Tensor) -> torch.Tensor:
    """Return max(x, 0).

    Args:
        x: f32, f16 or bf16, any shape and strides (one with gaps or overlaps is copied first).

    Returns:
        A tensor of x's shape and dtype, with the strides of ``torch.empty_like(x)``. NaN becomes 0, as in TileGym.

    Raises:
        TypeError: not a tensor.
        LaunchError: another dtype, or a device without our kernels.
    """
    inspect(x, "x", OP)
    if differentiates(x):
        return forward_only(OP, lambda: _relu(x.detach()), x)
    return _relu(x)


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return the op's tensors for a shape of any number of axes, on the meta device."""
    return (torch.empty(shape, dtype=dtype, device="meta"),)
