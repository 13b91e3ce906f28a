# SPDX-License-Identifier: MIT
"""Tile IR and cubins in Python."""
