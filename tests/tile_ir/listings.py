# SPDX-License-Identifier: MIT
"""Listings in tileirdisasm's format, of small kernels made up for the tests."""

from pathlib import Path

_DATA = Path(__file__).parent / "data"
VIEW = (_DATA / "view.tileir").read_text()
POINTERS = (_DATA / "pointers.tileir").read_text()
PRODUCT = (_DATA / "product.tileir").read_text()
