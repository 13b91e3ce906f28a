# SPDX-License-Identifier: MIT
"""The parts of the HTML page: markup, drawings, and one module per section."""
