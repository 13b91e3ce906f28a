# SPDX-License-Identifier: MIT
"""Environments of child processes: inherit everything, change only what is known to do harm."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .dirs import target_dir

if TYPE_CHECKING:
    from .toolkit import Toolkit

# tileiras takes a libnvvm from these before its own and then exits with status 5; cargo's build scripts rerun, and
# recompile 54 crates, when one of them changes.
_CUDA_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")

# CUDA_RUST_DEBUG would put debug information into every bytecode, CARGO_TARGET_DIR would make unrelated builds wait for
# each other, a foreign build id would name the wrong library, and build scripts (syn, serde) rerun on RUSTC_BOOTSTRAP.
_CARGO_VARIABLES = (
    "CUDA_RUST_DEBUG",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_TARGET_DIR",
    "CUTILE_BUILD_ID",
    "RUSTC_BOOTSTRAP",
)


def tileiras_env() -> dict[str, str]:
    """Return the environment tileiras runs in: this process's without CUDA_HOME, CUDA_PATH and CUDA_ROOT."""
    return {name: value for name, value in os.environ.items() if name not in _CUDA_VARIABLES}


# When one of these changes, cargo compiles the dependencies anew in the same place, and again when it changes back.
_TARGET_VARIABLES = (
    "CUDA_TOOLKIT_PATH",
    "LIBCLANG_PATH",
    "BINDGEN_EXTRA_CLANG_ARGS",
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
)


def _target(environment: Mapping[str, str]) -> Path:
    value = "\0".join(environment.get(name, "") for name in _TARGET_VARIABLES)
    return target_dir() / hashlib.sha256(value.encode()).hexdigest()[:8]


def cargo_env(toolkit: Toolkit | None, build_id: str) -> dict[str, str]:
    """Return the environment cargo runs in, for lazy builds, clippy and tests alike.

    Args:
        toolkit: gives CUDA_TOOLKIT_PATH; ``None`` leaves that to the crates.
        build_id: compiled into the library as ``cutile_build_id()``; empty for none.
    """
    from . import cargo
    from . import limits

    environment = {name: value for name, value in tileiras_env().items() if name not in _CARGO_VARIABLES}
    if toolkit is not None:
        environment["CUDA_TOOLKIT_PATH"] = str(toolkit.root)
    clang = cargo.find_libclang(toolkit)
    if clang is not None:
        environment["LIBCLANG_PATH"] = str(clang.folder)
        if clang.arguments and not environment.get("BINDGEN_EXTRA_CLANG_ARGS"):
            environment["BINDGEN_EXTRA_CLANG_ARGS"] = " ".join(clang.arguments)
    environment["CARGO_TARGET_DIR"] = str(_target(environment))
    environment.setdefault("CARGO_BUILD_JOBS", str(limits.build_jobs()))
    if build_id:
        environment["CUTILE_BUILD_ID"] = build_id
    return environment
