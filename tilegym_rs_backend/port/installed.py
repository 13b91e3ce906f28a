# SPDX-License-Identifier: MIT
"""The installed cuda-tile and TileGym: whether their internals are known here, and how they are imported."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from tilegym_rs_backend.errors import ToolchainError

TESTED_CUDA_TILE = ("1.7.0",)


def check_cuda_tile() -> str:
    """Return cuda-tile's version if its internals are known here.

    Raises:
        ToolchainError: it is not installed, or of another version.
    """
    try:
        version = importlib.metadata.version("cuda-tile")
    except importlib.metadata.PackageNotFoundError:
        raise ToolchainError(
            "cuda-tile is not installed, so cuTile Python's kernels cannot be captured. "
            "Install it with: pip install 'tilegym-rs[ported]'"
        ) from None
    if version not in TESTED_CUDA_TILE:
        raise ToolchainError(
            f"cuda-tile {version} is installed; capturing reads internals that were tested with "
            f"{', '.join(TESTED_CUDA_TILE)} only. Install that one: pip install cuda-tile=={TESTED_CUDA_TILE[-1]}"
        )
    return version


@contextlib.contextmanager
def backend_set(name: str) -> Iterator[None]:
    """Set TileGym's backend for the block: ops that call other ops follow it."""
    tilegym = import_tilegym()
    before = tilegym.get_current_backend()
    tilegym.set_backend(name)
    try:
        yield
    finally:
        tilegym.set_backend(before)


def import_tilegym() -> Any:
    """Import and return ``tilegym``, also where an nvcc but no driver is present.

    TileGym probes nvcc while it is imported and then asks an absent driver for its GPU; without a GPU that probe is
    pointed at a path that does not exist, for the import alone.
    """
    if "tilegym" in sys.modules:
        return sys.modules["tilegym"]
    import torch

    before = os.environ.get("TILECPP_NVCC_PATH")
    hide = not torch.cuda.is_available()
    try:
        if hide:
            os.environ["TILECPP_NVCC_PATH"] = os.path.join(os.sep, "nonexistent", "nvcc")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import tilegym
    finally:
        if hide:
            os.environ.pop("TILECPP_NVCC_PATH")
            if before is not None:
                os.environ["TILECPP_NVCC_PATH"] = before
    return tilegym
