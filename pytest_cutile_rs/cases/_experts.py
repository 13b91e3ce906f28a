# SPDX-License-Identifier: MIT
"""Which expert serves which token, for the ops of a mixture of experts.

Made on the CPU whatever the device, so that extents that follow from it are the same everywhere, ``meta`` included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def chosen(tokens: int, experts: int, topk: int, seed: int, used: int = 0) -> torch.Tensor:
    """(tokens, topk) distinct experts for each token, among the first ``used`` (all of them when 0); int32."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(tokens, used or experts, generator=generator)
    return scores.topk(topk, dim=1).indices.to(torch.int32)


def by_expert(ids: torch.Tensor, experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Places of the flattened choices in the order of their experts, and each expert's first one (experts + 1)."""
    import torch

    flat = ids.flatten().long()
    starts = torch.zeros(experts + 1, dtype=torch.int32)
    starts[1:] = torch.bincount(flat, minlength=experts).cumsum(0)
    return torch.argsort(flat, stable=True).to(torch.int32), starts


def padded_blocks(ids: torch.Tensor, experts: int, block: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same order with each expert's share padded to blocks, by the number of choices; and each block's expert."""
    import torch

    order, starts = by_expert(ids, experts)
    places, owners = [], []
    for expert in range(experts):
        share = order[starts[expert] : starts[expert + 1]]
        blocks = -(-share.numel() // block)
        places.append(torch.nn.functional.pad(share, (0, blocks * block - share.numel()), value=ids.numel()))
        owners += [expert] * blocks
    return torch.cat(places), torch.tensor(owners, dtype=torch.int32)
