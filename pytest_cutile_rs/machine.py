# SPDX-License-Identifier: MIT
"""Facts about the machine and the installed packages, without importing any of them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from typing import Any

_PACKAGES = ("tilegym-rs", "torch", "tilegym", "cuda-tile", "cffi", "numpy", "pytest")


def machine_facts() -> dict[str, Any]:
    """Python, platform, package versions, processor count, GPUs as NVML sees them (empty without NVML)."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": {name: version for name in _PACKAGES if (version := _version(name))},
        "gpus": _gpus(),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _gpus() -> list[dict[str, str]]:
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # no package, no driver, no device: nothing to report
        return []
    found = []
    try:
        driver = _text(pynvml.nvmlSystemGetDriverVersion())
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name, uuid = _text(pynvml.nvmlDeviceGetName(handle)), _text(pynvml.nvmlDeviceGetUUID(handle))
            found.append({"name": name, "uuid": uuid, "driver": driver})
    except pynvml.NVMLError:
        pass
    return found


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
