# SPDX-License-Identifier: MIT
"""A small transformer block of the ops' own kernels, and the same in torch: what a training step is compared by."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

HIDDEN, HEADS, KEYS, WIDTH, INNER = 32, 4, 2, 16, 48
NAMES = ("norm", "queries", "keys", "values", "out", "second norm", "gate", "up", "down")


class Block(torch.nn.Module):
    """norm, projections, rotary embedding, attention of torch's, norm, SwiGLU; residuals around both halves."""

    def __init__(self, norm: Any, rope: Any, swiglu: Any) -> None:
        super().__init__()
        self.norms = torch.nn.ModuleList(norm(HIDDEN) for _ in range(2))
        self.rope = rope
        sizes = ((HIDDEN, HEADS * WIDTH), (HIDDEN, KEYS * WIDTH), (HIDDEN, KEYS * WIDTH), (HEADS * WIDTH, HIDDEN))
        self.linears = torch.nn.ModuleList(torch.nn.Linear(*size, bias=False) for size in sizes)
        self.mlp = swiglu(SimpleNamespace(hidden_size=HIDDEN, intermediate_size=INNER, hidden_act="silu"))

    def weights(self) -> list[torch.nn.Parameter]:
        """In the order of `NAMES`."""
        mlp = (self.mlp.gate_proj, self.mlp.up_proj, self.mlp.down_proj)
        return [
            self.norms[0].weight,
            *(one.weight for one in self.linears),
            self.norms[1].weight,
            *(m.weight for m in mlp),
        ]

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """x: (batch, length, hidden)."""
        normed = self.norms[0](x)
        q, k, v = (split(linear(normed)) for linear in self.linears[:3])
        q, k = self.rope(q, k, cos, sin)
        x = x + self.linears[3](attention(q, k, v))
        return x + self.mlp(self.norms[1](x))


def split(x: torch.Tensor) -> torch.Tensor:
    """(batch, length, heads * width) -> (batch, heads, length, width)."""
    return x.unflatten(-1, (-1, WIDTH)).transpose(1, 2)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """torch's, causal; -> (batch, length, heads * width)."""
    k, v = (one.repeat_interleave(HEADS // KEYS, 1) for one in (k, v))
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


def in_torch(weights: Any, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """What `Block` computes, by the formulas."""
    first, queries, keys, values, out, second, gate, up, down = weights

    def norm(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight

    def rotated(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return x * cos.unsqueeze(1) + torch.cat((-b, a), -1) * sin.unsqueeze(1)

    normed = norm(x, first)
    q, k, v = (split(functional.linear(normed, weight)) for weight in (queries, keys, values))
    x = x + functional.linear(attention(rotated(q), rotated(k), v), out)
    normed = norm(x, second)
    return x + functional.linear(functional.silu(functional.linear(normed, gate)) * functional.linear(normed, up), down)


def check_a_training_step(norm: Any, rope: Any, swiglu: Any, device: str) -> None:
    """One step of SGD from the same weights: results, losses and weights are those of torch in fp64."""
    torch.manual_seed(0)
    block = Block(norm, rope, swiglu).to(device)
    with torch.no_grad():
        for weight in block.norms.parameters():
            weight.copy_(1 + 0.1 * torch.randn(HIDDEN))
    wide = [weight.detach().double().requires_grad_() for weight in block.weights()]
    x, target = torch.randn(2, 3, 9, HIDDEN, device=device)
    angles = torch.randn(3, 9, WIDTH // 2, device=device).repeat(1, 1, 2)
    cos, sin = angles.cos(), angles.sin()
    got = block(x, cos, sin)
    want = in_torch(wide, x.double(), cos.double(), sin.double())
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)
    functional.mse_loss(got, target).backward()
    functional.mse_loss(want, target.double()).backward()
    for name, mine, other in zip(NAMES, block.weights(), wide, strict=True):
        assert mine.grad is not None, name
        torch.testing.assert_close(
            mine.grad.double(), other.grad, rtol=1e-4, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}"
        )
        assert float(other.grad.abs().max()) > 1e-3, f"{name}: nothing to compare"
    torch.optim.SGD(block.parameters(), 0.1).step()
    torch.optim.SGD(wide, 0.1).step()
    for name, mine, other in zip(NAMES, block.weights(), wide, strict=True):
        torch.testing.assert_close(
            mine.detach().double(), other.detach(), rtol=1e-5, atol=1e-6, msg=lambda text, n=name: f"{n}: {text}"
        )
