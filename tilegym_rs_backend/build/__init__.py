# SPDX-License-Identifier: MIT
"""Sources to key to cargo to published library."""
