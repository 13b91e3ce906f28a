# SPDX-License-Identifier: MIT
"""Capturing cuTile Python launches (and, later, translating them to Rust)."""
