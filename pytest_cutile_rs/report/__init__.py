# SPDX-License-Identifier: MIT
"""From results to text, JSON, Markdown, JUnit, CSV."""
