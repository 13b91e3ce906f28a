# SPDX-License-Identifier: MIT
"""What is checked before cargo starts, so that a missing tool is named in a second and not after minutes."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from pathlib import Path

from ..errors import BuildError
from ..errors import ToolchainError
from ..toolchain.cargo import Libclang
from ..toolchain.cargo import find_cargo
from ..toolchain.cargo import find_cc
from ..toolchain.cargo import find_libclang
from ..toolchain.cargo import libclang_folders
from ..toolchain.cargo import probe_headers
from ..toolchain.dirs import made
from ..toolchain.env import cargo_env
from ..toolchain.toolkit import Toolkit
from ..toolchain.toolkit import find_toolkit
from .failures import KNOWN

COLD_BYTES = 1_200_000_000
WARM_BYTES = 100_000_000


def tools() -> Toolkit:
    """Return the toolkit to build with, once cargo, rustc and a C compiler are there too.

    Raises:
        ToolchainError: all that is missing, each with its fix.
    """
    problems: list[str] = []
    toolkit: Toolkit | None = None
    for find in (find_cargo, find_cc):
        try:
            find()
        except ToolchainError as error:
            problems.append(str(error))
    try:
        toolkit = find_toolkit(headers=True)
    except ToolchainError as error:
        problems.append(str(error))
    if toolkit is None or problems:
        several = "several things are missing:\n- " if len(problems) > 1 else ""
        raise ToolchainError(f"the Rust kernels cannot be built here: {several}" + "\n- ".join(problems))
    return toolkit


def check(toolkit: Toolkit) -> None:
    """Check libclang with its headers, and disk space.

    Raises:
        BuildError: one of them does not do; stage ``preflight``, the fix in its hints.
        ToolchainError: there is no C compiler.
    """
    target = Path(cargo_env(toolkit, "")["CARGO_TARGET_DIR"])
    try:
        free = shutil.disk_usage(made(target)).free
    except (OSError, ToolchainError) as error:
        raise BuildError(f"cargo's target folder: {error}", stage="preflight") from error
    needed = WARM_BYTES if (target / "release" / "deps").is_dir() else COLD_BYTES
    if free < needed:
        raise BuildError(
            f"{target} has {free / 1e9:.2f} GB free, this build needs {needed / 1e9:.1f} GB",
            stage="preflight",
            hints=("free some, or set TILEGYM_RS_CACHE_DIR to a larger disk",),
        )
    compiler = find_cc()
    clang = find_libclang(toolkit)
    if clang is None:
        raise BuildError(
            "libclang was not found; bindgen reads cuda.h with it. Looked in "
            + ", ".join(str(folder) for folder in libclang_folders(toolkit)),
            stage="preflight",
            hints=("run `tilegym-rs setup`, or `apt-get install libclang-dev`, or set LIBCLANG_PATH to its folder",),
        )
    _check_headers(clang, compiler, target)


def _check_headers(clang: Libclang, compiler: Path, target: Path) -> None:
    # 0.2 s that a rebuild need not spend again with the same libclang and compiler
    what = f"{clang}{clang.library.stat().st_mtime_ns}{compiler}{compiler.stat().st_mtime_ns}"
    stamp = target / f".libclang-{hashlib.sha256(what.encode()).hexdigest()[:16]}"
    if stamp.exists():
        return
    if not probe_headers(clang):
        stddef = next(known for known in KNOWN if "stddef" in known.pattern.pattern)
        raise BuildError(
            f"{clang.library} cannot compile `#include <stddef.h>`: it comes without the compiler's builtin headers",
            stage="preflight",
            hints=stddef.hints,
        )
    with contextlib.suppress(OSError):  # on a full disk cargo is the one to say so
        stamp.touch()
