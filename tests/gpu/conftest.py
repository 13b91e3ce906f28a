# SPDX-License-Identifier: MIT
"""What only a GPU shows. Collected everywhere; skipped with a reason where there is none."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def ops(monkeypatch):
    """`tilegym.ops` under `cutile_rs`, without fallback to another backend."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    tilegym = pytest.importorskip("tilegym", reason="tilegym is not installed")
    monkeypatch.setitem(os.environ, "DISABLE_FALLBACK", "1")
    before = tilegym.get_current_backend()
    tilegym.set_backend("cutile_rs")
    yield tilegym.ops
    tilegym.set_backend(before)


@pytest.fixture
def two_gpus(ops):
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip(f"needs two CUDA devices, there is {torch.cuda.device_count()}")
    torch.cuda.set_device(0)
