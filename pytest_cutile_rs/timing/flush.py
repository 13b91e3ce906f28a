# SPDX-License-Identifier: MIT
"""Puts the L2 cache into the same state before every call."""

from __future__ import annotations

from typing import Any

# Used when torch does not say how large the cache is: no NVIDIA GPU up to Blackwell has more than 126 MiB.
UNKNOWN_L2_BYTES = 128 << 20


class L2Flush:
    """Overwrites twice the L2 cache of torch's current device, on torch's current stream."""

    def __init__(self) -> None:
        import torch

        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.l2_bytes = int(getattr(properties, "L2_cache_size", 0)) or UNKNOWN_L2_BYTES
        self._buffer: Any = torch.empty(2 * self.l2_bytes // 4, dtype=torch.int32, device="cuda")

    def __call__(self) -> None:
        """Enqueue the overwrite. A kernel rather than a memset, so that the lines really pass through the cache."""
        self._buffer.fill_(1)
