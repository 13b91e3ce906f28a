# SPDX-License-Identifier: MIT
"""The SwiGLU block of a transformer, down(silu(gate(x)) * up(x)), around the op of `get_swiglu.py`.

TileGym's op `get_swiglu_module`, a function without arguments that returns the module's class. Its three projections
are `torch.nn.Linear`.
"""

from __future__ import annotations

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
