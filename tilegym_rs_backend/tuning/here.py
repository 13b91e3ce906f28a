# SPDX-License-Identifier: MIT
"""What a choice depends on besides the problem: kernels' sources, GPU, driver, compiler."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from ..artifacts import tileiras_tag
from ..registration import native_ops
from . import machine as machines
from . import model
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
    key = Key(
        space=space.name,
        kernels=kernel_digest(library, kernel, space.launch.__module__),
        arch=machine.arch,
        gpu="" if device is None else gpu_name(device),
        driver="" if device is None else driver_version(),
        tileiras=tileiras_tag(),
        bucket=dict(space.bucket(problem)),
    )
    return plan_key(key) if device is None else key


def plan_key(key: Key) -> Key:
    """Return the key of the plan for a choice's bucket, as this package's model ranks it."""
    return key.plan(_text_digest(model.__name__, machines.__name__, f"{__package__}.search"))


def is_current(key: Key, library: Library) -> bool:
    """Whether a stored choice or plan is good for the kernels, spaces, compiler and model that are in use."""
    spaces = [each for op in native_ops() for each in spaces_of(op) if each.name == key.space]
    kernels = {
        kernel_digest(library, str(entry["name"]), space.launch.__module__)
        for space in spaces
        for entry in library.describe["kernels"]
    }
    planner = plan_key(key).planner if key.planned else ""
    return key.kernels in kernels and key.tileiras == tileiras_tag() and key.planner == planner


def spaces_of(op: str) -> list[Space[Any, Any]]:
    """Return the spaces that a native op's module uses."""
    module = importlib.import_module(f"tilegym_rs_backend.ops.{op}")
    return [each for each in vars(module).values() if isinstance(each, Space)]


@functools.lru_cache(maxsize=256)
def kernel_digest(library: Library, kernel: str, module: str) -> str:
    """Return a digest of the sources that decide a kernel's machine code and launches.

    Those are its op's Rust file, the crate's other files but for other ops', and the Python module that declares the
    space. A library without a manifest of its sources is named by its build id.
    """
    source: str = str(library.kernel(kernel)["source"]).split(":")[0]
    try:
        manifest = json.loads((library.path.parent / "build.json").read_text(encoding="utf-8"))
        files: dict[str, str] = manifest["files"] if manifest["build_id"] == library.build_id else {}
    except (OSError, ValueError, KeyError, TypeError):
        files = {}
    decide = {
        name: digest
        for name, digest in files.items()
        if name in ("Cargo.lock", source) or (name.startswith(("src/", "tile/")) and not name.startswith("src/ops/"))
    }
    if source not in files:
        decide = {"library": library.build_id}
    decide["space"] = _text_digest(module)
    return hashlib.sha256(json.dumps(decide, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def _text_digest(*modules: str) -> str:
    """Return a digest of modules' source files."""
    digest = hashlib.sha256()
    for name in modules:
        digest.update(Path(str(importlib.import_module(name).__file__)).read_bytes())
    return digest.hexdigest()[:16]


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
