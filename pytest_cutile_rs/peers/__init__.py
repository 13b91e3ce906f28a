# SPDX-License-Identifier: MIT
"""What the Rust kernels are compared with."""
