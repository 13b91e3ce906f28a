# SPDX-License-Identifier: MIT
"""Bytecode of captured launches, kept in the store: cuTile Python's front end takes 0.1 to 3 s for a kernel.

A key holds all that the front end reads: its version, the kernel's package on disk, the kernel's name, options and
signature (constants included), and the plain values among its module's globals. A kernel outside of a package, or one
that closes over variables, is compiled every time.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from tilegym_rs_backend.port import signature as front_end

if TYPE_CHECKING:
    from tilegym_rs_backend.port.capture import CapturedLaunch

_PLAIN = (bool, int, float, str, tuple)


def bytecode(launch: CapturedLaunch, *, singleton_extents: bool = True) -> bytes:
    """Return what `signature.bytecode` returns, from the store if it is there.

    Raises:
        CompileError: the front end refused the kernel or an argument.
    """
    from tilegym_rs_backend.artifacts import stored_bytecode

    key = _key(launch, singleton_extents)
    if key is None:
        return front_end.bytecode(launch, singleton_extents=singleton_extents)
    return stored_bytecode(key, lambda: front_end.bytecode(launch, singleton_extents=singleton_extents))


def _key(launch: CapturedLaunch, singleton_extents: bool) -> str | None:
    function = launch.kernel._annotated_function.pyfunc
    sources = sources_hash(launch.module.partition(".")[0]) if "." in launch.module else None
    if sources is None or function.__closure__:
        return None
    plain = {
        name: value
        for name, value in function.__globals__.items()
        if isinstance(value, _PLAIN) and not name.startswith("__")
    }
    parts = (
        importlib.metadata.version("cuda-tile"),
        front_end.BYTECODE_VERSION,
        launch.arch,
        sources,
        f"{launch.module}.{function.__qualname__}",
        repr(launch.kernel._compiler_options),
        repr(front_end.signature(launch, singleton_extents=singleton_extents)),
        repr(sorted(plain.items(), key=lambda item: item[0])),
    )
    return hashlib.sha256("\0".join(("cutile-python", *parts)).encode()).hexdigest()


@functools.cache
def sources_hash(package: str) -> str | None:
    """Return a hash of every Python file of a package on disk, None for what is no package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    digest = hashlib.sha256()
    for root in sorted(spec.submodule_search_locations):
        for file in sorted(Path(root).rglob("*.py")):
            digest.update(str(file).encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
