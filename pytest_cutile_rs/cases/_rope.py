# SPDX-License-Identifier: MIT
"""Rotary position embedding: its definition, its tables of cosines and sines, and its tolerances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cutile_rs.case import Tolerance

if TYPE_CHECKING:
    import torch

TOLERANCES = {
    "f32": Tolerance(1e-5, 2e-6, "two products and a difference in fp32, which may cancel; TileGym's own rtol"),
    "f16": Tolerance(1e-3, 4e-3, "two products and their sum, each rounded to 11 bits by TileGym; ours in fp32, once"),
    "bf16": Tolerance(8e-3, 2e-2, "two products and their sum, each rounded to 8 bits by TileGym; ours in fp32, once"),
}
"""TileGym's own: 1e-5 in f32, 1e-2 in f16; it skips bf16."""


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """The first elements of the last axis, as many as the tables have, as halves rotated against each other."""
    import torch

    width = cos.shape[-1]
    table, other = (one.unsqueeze(1)[..., : width // 2] for one in (cos, sin))
    first, second, rest = x[..., : width // 2], x[..., width // 2 : width], x[..., width:]
    return torch.cat((first * table - second * other, second * table + first * other, rest), dim=-1)


def tables(
    batch: int, length: int, width: int, dtype: str, device: str, *, empty: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of positions times falling frequencies; each batch begins at another position."""
    import torch

    from pytest_cutile_rs.case import TORCH_DTYPES

    kind = getattr(torch, TORCH_DTYPES[dtype])
    if device == "meta" or empty:
        shape = (batch, length, width)
        return torch.empty(shape, dtype=kind, device=device), torch.empty(shape, dtype=kind, device=device)
    frequencies = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64, device=device) / width)
    starts = 7 * torch.arange(batch, dtype=torch.float64, device=device)
    positions = starts[:, None] + torch.arange(length, dtype=torch.float64, device=device)
    angles = (positions[..., None] * frequencies).repeat(1, 1, 2)
    return angles.cos().to(kind), angles.sin().to(kind)
