# SPDX-License-Identifier: MIT
"""One file per kind of check."""
