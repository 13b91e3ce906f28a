# SPDX-License-Identifier: MIT
"""The torch modules of TileGym's op `get_rms_norm_module`: `rms_norm` with a weight of its own."""

from __future__ import annotations

from typing import Any

import torch

from .rms_norm import rms_norm
from .rms_norm import rms_norm_backward


class RmsNorm(torch.nn.Module):
    """x / sqrt(mean(x^2) + eps) * (offset + weight) over the last axis.

    Attributes:
        weight: (hidden_size,), ones at first.
        variance_epsilon: eps.
        hidden_size: extent of the last axis.
        offset: added to the weight.
    """

    def __init__(self, hidden_size: int, eps: float = 1e-6, offset: float = 0.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps
        self.hidden_size = hidden_size
        self.offset = offset

    def forward(self, hidden_states: torch.Tensor, mode: str | None = None) -> torch.Tensor:
        """Return the normalised states; see `rms_norm` for `mode`."""
        return rms_norm(hidden_states, None, self.weight, self.variance_epsilon, mode=mode, offset=self.offset)

    def forward_torch(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """Return the same by torch's own operations, normalised in f32 and weighted in the states' dtype."""
        wide = hidden_states.float()
        rstd = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.offset + self.weight) * (wide * rstd).to(hidden_states.dtype)

    @staticmethod
    def compute_rstd_torch(x: torch.Tensor, eps: float) -> torch.Tensor:
        """Return what a forward pass keeps for the backward one, f32: 1 / sqrt(mean(x^2) + eps) of each row."""
        rows = x.reshape(-1, x.shape[-1]).float()
        return torch.rsqrt((rows * rows).mean(-1) + eps)

    @staticmethod
    def rms_norm_backward(
        x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradients of x and weight; see `ops.rms_norm.rms_norm_backward`."""
        return rms_norm_backward(x, dy, weight, rstd)

    @staticmethod
    def rms_norm_backward_torch(
        x: torch.Tensor, dy: torch.Tensor, weight: torch.Tensor, rstd: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the gradients of x and weight by torch's own operations, in f32."""
        wide, grad = x.float(), dy.float()
        factor = rstd.view(*x.shape[:-1], 1)
        normal = wide * factor
        weighted = grad * weight.float()
        dx = factor * (weighted - normal * (weighted * normal).mean(-1, keepdim=True))
        dw = (grad * normal).flatten(0, -2).sum(0)
        return dx.to(x.dtype), dw.to(weight.dtype)

    def extra_repr(self) -> str:
        """Return the settings as text."""
        return f"{tuple(self.weight.shape)}, eps={self.variance_epsilon}, offset={self.offset}"


class Gemma3RmsNorm(RmsNorm):
    """Gemma 3's: weights are zeros at first, and 1 is added to them."""

    def __init__(
        self,
        dim: int,
        eps: float = 1e-6,
        offset: float = 1.0,
        casting_mode: str = "gemma",
        init_fn: str = "zeros",
        in_place: bool = False,
    ) -> None:
        """Take TileGym's arguments; the last three have no effect, as there."""
        super().__init__(dim, eps, offset)
        torch.nn.init.zeros_(self.weight)


def get_rms_norm_module(model: str = "llama") -> type[RmsNorm]:
    """Return the class of a model's normalisation: `Gemma3RmsNorm` for ``"gemma3"``, else `RmsNorm`."""
    return Gemma3RmsNorm if model == "gemma3" else RmsNorm


def arguments(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[Any, ...]:
    """Return the op's arguments, of which there are none; warm up `rms_norm` for the modules."""
    return ()
