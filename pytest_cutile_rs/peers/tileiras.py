# SPDX-License-Identifier: MIT
"""Make cuTile Python assemble with our tileiras: a comparison of kernels must not be one of assemblers.

cuTile Python looks for tileiras in pip packages, on PATH and in CUDA_HOME. Its look-up is replaced, in this process,
by a launcher of the wanted file that also clears the variables which make tileiras load a foreign libnvvm.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cutile_rs.peers.base import PeerError

_LOOKUP = "_find_compiler_bin"
_SCRIPT_BYTES = 4096
# Answers that cuTile Python remembers about the tileiras it found first.
_REMEMBERED = ("_get_max_supported_bytecode_version", "_get_compiler_version_string", "_find_tileirdisasm_bin")


@dataclass(frozen=True)
class SharedTileiras:
    """The tileiras that cuTile Python now uses; ``undo()`` gives its own look-up back."""

    path: Path
    version: str
    launcher: Path
    undo: Callable[[], None]

    def facts(self) -> dict[str, str]:
        """For the run's record."""
        return {"path": str(self.path), "version": self.version}


def share_tileiras(tileiras: Path, version: str, folder: Path) -> SharedTileiras:
    """Make cuTile Python use ``tileiras`` in this process.

    Args:
        tileiras: the assembler, by absolute path; it is run where it lies.
        version: what it is recorded as.
        folder: a private folder in which the launcher is kept.

    Raises:
        PeerError: the file cannot be run, or this cuda-tile has no such look-up to replace.
    """
    if not tileiras.is_absolute() or not os.access(tileiras, os.X_OK):
        raise PeerError(f"{tileiras} is no absolute path of an executable tileiras. Check `tilegym-rs doctor`.")
    import cuda.tile._compile as compiling

    original = getattr(compiling, _LOOKUP, None)
    binary: Any = getattr(compiling, "_CompilerBinary", None)
    if original is None or binary is None:
        raise PeerError(
            "This cuda-tile finds tileiras in a way that is not known here, so both sides might be assembled by "
            "different ones. Install the tested one: pip install cuda-tile==1.7.0"
        )
    launcher = write_launcher(tileiras, folder)
    found = binary(str(launcher), str(launcher.parent), os.environ.get("LD_LIBRARY_PATH", ""), False)

    def ours() -> Any:
        return found

    def forget() -> None:
        for name in _REMEMBERED:
            clear = getattr(getattr(compiling, name, None), "cache_clear", None)
            if clear is not None:
                clear()

    def undo() -> None:
        if getattr(compiling, _LOOKUP) is ours:
            setattr(compiling, _LOOKUP, original)
            forget()

    ours.cache_clear = lambda: None  # type: ignore[attr-defined] # the original is a functools.cache
    setattr(compiling, _LOOKUP, ours)
    forget()
    return SharedTileiras(tileiras, version, launcher, undo)


def tileiras_in_use() -> str:
    """The SHA-256 of the file that cuTile Python assembles with now, whoever set it; empty when it finds none.

    A launcher of ours stands for the file it runs.
    """
    import cuda.tile._compile as compiling

    try:
        path = Path(getattr(compiling, _LOOKUP)().path)
    except Exception:  # its look-up raises what it likes; then nothing was assembled here either
        return ""
    if path.is_file() and path.stat().st_size < _SCRIPT_BYTES:
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("exec "):
                path = Path(shlex.split(line)[1])
    return file_hash(path)


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, remembered by its size and time; empty when it cannot be read."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return _hash(str(path), status.st_size, status.st_mtime_ns)


@functools.lru_cache(maxsize=8)
def _hash(path: str, _size: int, _mtime_ns: int) -> str:
    with open(path, "rb") as file:
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_launcher(tileiras: Path, folder: Path) -> Path:
    """Write scripts ``tileiras`` and ``tileirdisasm`` that run the tools beside ``tileiras`` in a clean environment."""
    place = folder / f"tileiras-{hashlib.sha256(str(tileiras).encode()).hexdigest()[:16]}"
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    for tool in ("tileiras", "tileirdisasm"):
        if not (tileiras.parent / tool).is_file():
            continue
        script = (
            f'#!/bin/sh\nunset CUDA_HOME CUDA_PATH CUDA_ROOT\nexec {shlex.quote(str(tileiras.parent / tool))} "$@"\n'
        )
        target = place / tool
        if target.is_file() and target.read_text() == script:
            continue
        handle, name = tempfile.mkstemp(dir=place)
        with os.fdopen(handle, "w") as file:
            file.write(script)
        Path(name).chmod(0o700)
        Path(name).replace(target)
    return place / "tileiras"
