# SPDX-License-Identifier: MIT
"""Sources -> key -> cargo -> published library. Nothing here runs before a library is asked for."""

from __future__ import annotations

from .ensure import ensure_library
from .ensure import quarantine
from .key import build_key
from .key import rust_root
from .key import source_key
from .sweep import sources_changed

__all__ = ["build_key", "ensure_library", "quarantine", "rust_root", "source_key", "sources_changed"]
