# SPDX-License-Identifier: MIT
"""pytest --cutile-rs: parity of the Rust kernels with cuTile Python."""
