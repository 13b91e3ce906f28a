# SPDX-License-Identifier: MIT
"""cuTile Python kernels in Rust: captured, translated, built, and launched in place of the originals."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

if TYPE_CHECKING:
    from .user import RustKernel


def kernel(original: Any) -> RustKernel:
    """Return a Rust-backed object that launches like a ``cuda.tile.kernel``; see ``user.kernel``."""
    from .user import kernel as made

    return made(original)


__all__ = ["kernel"]
