# SPDX-License-Identifier: MIT
"""Device-time measurement behind one small interface."""
