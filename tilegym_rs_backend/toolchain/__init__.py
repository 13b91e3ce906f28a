# SPDX-License-Identifier: MIT
"""Finding and installing the tools: toolkit prefix, cargo, cc, libclang, tileiras."""
