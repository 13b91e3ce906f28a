# SPDX-License-Identifier: MIT
"""Rust (cutile-rs) implementations of NVIDIA TileGym's ops, registered with TileGym as backend ``cutile_rs``.

Importing this package registers the backend with TileGym, now or when TileGym is imported; nothing is built, and
neither torch nor CUDA is touched, until an op is called.
"""

from __future__ import annotations

import importlib
from typing import Any

from .registration import register

__version__ = "0.1.0"

# Where the public names live; loaded on first use, because they need torch and cffi.
_HOMES = {
    "bind": ".launch",
    "kernels": ".launch",
    "record": ".launch",
    "get_library": ".library",
    "reload": ".library",
    "warmup": ".warm",
}
__all__ = ["__version__", "bind", "get_library", "kernels", "record", "register", "reload", "warmup"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home, __name__), name)


register()
