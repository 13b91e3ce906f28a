# SPDX-License-Identifier: MIT
"""Applies to every test: `gpu` tests are collected everywhere and skip, with the reason, where there is no device."""

from __future__ import annotations

import os

import pytest

pytest_plugins = ["pytester"]

_no_gpu: list[str] = []


def _why_no_gpu() -> str:
    if not _no_gpu:
        if not os.path.exists("/dev/nvidiactl"):
            _no_gpu.append("no NVIDIA device (/dev/nvidiactl)")
        else:
            import torch

            _no_gpu.append("" if torch.cuda.is_available() else "torch sees no CUDA device")
    return _no_gpu[0]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a `gpu` test where there is no device."""
    if item.get_closest_marker("gpu") and _why_no_gpu():
        pytest.skip(_why_no_gpu())
