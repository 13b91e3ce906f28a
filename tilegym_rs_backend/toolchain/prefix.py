# SPDX-License-Identifier: MIT
"""The private prefix: CUDA pieces, libclang and CUPTI that never enter torch's environment."""

from __future__ import annotations

import hashlib
import sys
from functools import lru_cache
from pathlib import Path

from .dirs import prefix_dirs

LOCKS = Path(__file__).parent / "locks"
STAMP = "installed.json"
_LAYOUT = b"2"  # raise it when install.py unpacks the same wheels in another way


@lru_cache(maxsize=8)
def lock_hash(name: str) -> str:
    """Return 16 hex digits that stand for a lock file (``toolkit``, ``cupti``) and how it is unpacked."""
    return hashlib.sha256(_LAYOUT + (LOCKS / f"{name}.txt").read_bytes()).hexdigest()[:16]


def _place(name: str) -> Path:
    places = [folder / name for folder in prefix_dirs()]
    return next((place for place in places if (place / STAMP).is_file()), places[0])


def toolkit_prefix() -> Path:
    """Return the folder of the CUDA pieces and libclang; it exists once they are installed."""
    return _place(f"cuda-{lock_hash('toolkit')}")


def toolkit_root() -> Path:
    """Return the toolkit inside the prefix."""
    return toolkit_prefix() / "nvidia" / "cu13"


def libclang_folder() -> Path:
    """Return the folder of the prefix's libclang."""
    return toolkit_prefix() / "clang" / "native"


def cupti_prefix() -> Path:
    """Return the folder to put on ``sys.path`` for ``import cupti``; its extension modules fit this Python alone."""
    return _place(f"cupti-cp{sys.version_info[0]}{sys.version_info[1]}-{lock_hash('cupti')}")
