# SPDX-License-Identifier: MIT
"""The library with the tests' own pair of kernels."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "own"))


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("cuda.tile")
    from crate import crate_with_own_kernels

    from tilegym_rs_backend.build import ensure_library
    from tilegym_rs_backend.errors import ToolchainError
    from tilegym_rs_backend.library import Library

    root = crate_with_own_kernels(tmp_path_factory.mktemp("crate"))
    try:
        return Library(ensure_library(root, reason="the tests' own pair of kernels"))
    except ToolchainError as error:
        pytest.skip(str(error))
