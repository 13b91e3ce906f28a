# SPDX-License-Identifier: MIT
"""The crate with the tests' own kernels, and its library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "own"))


@pytest.fixture(scope="session")
def own_crate(tmp_path_factory) -> Path:
    pytest.importorskip("torch")
    pytest.importorskip("cuda.tile")
    from crate import crate_with_own_kernels

    return crate_with_own_kernels(tmp_path_factory.mktemp("crate"))


@pytest.fixture(scope="session")
def library(own_crate):
    from tilegym_rs_backend import library
    from tilegym_rs_backend.errors import ToolchainError

    try:
        return library.open(own_crate)
    except ToolchainError as error:
        pytest.skip(str(error))
