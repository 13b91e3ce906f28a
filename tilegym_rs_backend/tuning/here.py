# SPDX-License-Identifier: MIT
"""What a choice depends on besides the problem: kernels' sources, GPU, driver, compiler."""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from ..artifacts import tileiras_tag
from .choices import Choices
from .choices import Key
from .machine import Machine
from .space import Space

if TYPE_CHECKING:
    from ..library import Library

_DRIVER = Path("/sys/module/nvidia/version")


def choices() -> Choices:
    """Return the store of this user's cache."""
    from ..toolchain.dirs import tune_dir

    return Choices(tune_dir())


def key_of(space: Space[Any, Any], problem: Any, library: Library, machine: Machine, device: int | None) -> Key:
    """Return the key of a problem's choice on a CUDA device, or of its plan without one."""
    kernel = space.launch(problem, space.default(problem, machine), machine).kernel
    return Key(
        space=space.name,
        kernels=kernel_digest(library, kernel),
        arch=machine.arch,
        gpu="" if device is None else gpu_name(device),
        driver="" if device is None else driver_version(),
        tileiras=tileiras_tag(),
        bucket=dict(space.bucket(problem)),
    )


@functools.lru_cache(maxsize=64)
def kernel_digest(library: Library, kernel: str) -> str:
    """Return a digest of the sources that decide a kernel's machine code: its op's file, and all but other ops' files.

    A library without a manifest of its sources is named by its build id.
    """
    source: str = str(library.kernel(kernel)["source"]).split(":")[0]
    try:
        manifest = json.loads((library.path.parent / "build.json").read_text(encoding="utf-8"))
        files: dict[str, str] = manifest["files"] if manifest["build_id"] == library.build_id else {}
    except (OSError, ValueError, KeyError, TypeError):
        files = {}
    if source not in files:
        return str(library.build_id)
    decide = {
        name: digest
        for name, digest in files.items()
        if name in ("Cargo.lock", source) or (name.startswith(("src/", "tile/")) and not name.startswith("src/ops/"))
    }
    return hashlib.sha256(json.dumps(decide, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def gpu_name(device: int) -> str:
    """Return a CUDA device's name."""
    import torch

    return str(torch.cuda.get_device_name(device))


@functools.cache
def driver_version() -> str:
    """Return the driver's version; that of its CUDA API where the kernel module does not tell."""
    try:
        return _DRIVER.read_text(encoding="ascii").strip()
    except OSError:
        import torch

        return f"cuda {torch._C._cuda_getDriverVersion()}"  # type: ignore[attr-defined]
