# SPDX-License-Identifier: MIT
"""The SwiGLU block of a transformer, down(silu(gate(x)) * up(x)), around the op of `get_swiglu.py`.

TileGym's op `get_swiglu_module`, a function without arguments that returns the module's class. Its three projections
are `torch.nn.Linear`.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from .get_swiglu import swiglu

OP = "get_swiglu_module"


class SwiGLU(nn.Module):
    """down_proj(silu(gate_proj(x)) * up_proj(x)), without biases.

    Args:
        config: has ``hidden_size``, ``intermediate_size`` and ``hidden_act``, which is ``"silu"`` or ``"swish"``.
        hidden_size, intermediate_size: in place of the configuration's.

    Raises:
        ValueError: another activation.
    """

    def __init__(self, config: Any, hidden_size: int | None = None, intermediate_size: int | None = None) -> None:
        super().__init__()
        if config.hidden_act not in ("silu", "swish"):
            raise ValueError(f"{OP}: hidden_act is 'silu' or 'swish', got {config.hidden_act!r}")
        self.config = config
        self.hidden_size: int = config.hidden_size if hidden_size is None else hidden_size
        self.intermediate_size: int = config.intermediate_size if intermediate_size is None else intermediate_size
        self.gate_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.up_proj = nn.Linear(self.hidden_size, self.intermediate_size, bias=False)
        self.down_proj = nn.Linear(self.intermediate_size, self.hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output for x of (..., hidden_size)."""
        result: torch.Tensor = self.down_proj(swiglu(self.gate_proj(x), self.up_proj(x)))
        return result


def get_swiglu_module() -> type[nn.Module]:
    """Return `SwiGLU`."""
    return SwiGLU


def called(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """Return the module's output for x of (rows, hidden), with these weights."""
    inner, hidden = gate.shape
    config = SimpleNamespace(hidden_size=hidden, intermediate_size=inner, hidden_act="silu")
    with torch.device("meta"):  # its own weights are never used
        module = SwiGLU(config)
    names = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
    result: torch.Tensor = torch.func.functional_call(module, dict(zip(names, (gate, up, down), strict=True)), (x,))
    return result


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return what `called` takes for a shape (rows, hidden, inner), on the meta device.

    Raises:
        ValueError: another number of extents.
    """
    if len(shape) != 3:
        raise ValueError(f"{OP}: a shape is rows, hidden, inner, got {shape}")
    rows, hidden, inner = shape
    extents = ((rows, hidden), (inner, hidden), (inner, hidden), (hidden, inner))
    return tuple(torch.empty(each, dtype=dtype, device="meta") for each in extents)
