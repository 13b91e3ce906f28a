# SPDX-License-Identifier: MIT
"""Loaded Rust libraries: dlopen, declarations, error texts, and reload after a source changed.

`get_library` is the one of this package's own crate, ``open`` that of a crate of the user's own.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any
from typing import NoReturn

from .contract import ABI_VERSION
from .contract import CDEF
from .contract import RC_MEANING
from .errors import BuildError
from .errors import LaunchError
from .errors import TilegymRsError


class Library:
    """One loaded `libcutile_kernels.so`. Never unloaded: captured graphs hold its functions.

    Attributes:
        path: the file that was opened.
        ffi, lib: cffi's views of it.
        build_id: the build key that was compiled in.
    """

    def __init__(self, path: Path) -> None:
        import cffi

        expected = _expected_build_id(path)
        self.path = path
        self.ffi = cffi.FFI()
        self.ffi.cdef(CDEF)
        flags = self.ffi.RTLD_NOW | self.ffi.RTLD_LOCAL
        try:
            trial = self.ffi.dlopen(str(path), flags)
        except OSError as error:
            raise BuildError(f"cannot load {path}: {error}", stage="load", hints=[_REBUILD]) from error
        try:
            self.build_id = self._identify(trial, expected)
            self.lib = self.ffi.dlopen(str(path), flags | self.ffi.RTLD_NODELETE)
        finally:
            self.ffi.dlclose(trial)  # one that does not fit is unmapped: its successor will have the same path
        self._describe: dict[str, Any] | None = None
        self._declared: set[str] = set()
        self._lock = threading.Lock()

    def _identify(self, lib: Any, expected: str | None) -> str:
        """Return the build id; raise BuildError unless ABI and id are what they have to be."""
        try:
            version = int(lib.cutile_abi_version())
            build_id = "" if version != ABI_VERSION else self.ffi.string(lib.cutile_build_id()).decode()
        except AttributeError as error:
            raise BuildError(f"cannot load {self.path}: {error}", stage="load", hints=[_REBUILD]) from error
        if version != ABI_VERSION:
            raise BuildError(
                f"{self.path} speaks ABI {version}, this package speaks {ABI_VERSION}", stage="load", hints=[_REBUILD]
            )
        if expected is not None and build_id != expected:
            raise BuildError(
                f"{self.path} says it is build {build_id}, its build.json says {expected}: something else was copied "
                "to its place",
                stage="load",
                hints=[_REBUILD],
            )
        return build_id

    @property
    def describe(self) -> dict[str, Any]:
        """All entries with parameters, generics and C declaration, as `cutile_describe()` tells them."""
        if self._describe is None:
            self._describe = json.loads(self.ffi.string(self.lib.cutile_describe()))
        return self._describe

    def kernel(self, name: str) -> dict[str, Any]:
        """Return the description of one entry; raises LaunchError naming the entries there are."""
        for entry in self.describe["kernels"]:
            if entry["name"] == name:
                found: dict[str, Any] = entry
                return found
        known = ", ".join(entry["name"] for entry in self.describe["kernels"])
        raise LaunchError(f"{self.path} has no kernel {name!r}; it has: {known}", rc=-6)

    def export(self, name: str) -> Any:
        """Return the typed export `cutile_<name>`, declared to cffi on first use."""
        symbol = f"cutile_{name}"
        with self._lock:
            if symbol not in self._declared:
                self.ffi.cdef(self.kernel(name)["cdef"])
                self._declared.add(symbol)
        return getattr(self.lib, symbol)

    def last_error(self) -> str:
        """Return this thread's last error text, empty when there is none."""
        length = int(self.lib.cutile_last_error(self.ffi.NULL, 0))
        if length <= 0:
            return ""
        buffer = self.ffi.new("char[]", length + 1)
        self.lib.cutile_last_error(buffer, length + 1)
        return bytes(self.ffi.string(buffer)).decode(errors="replace")

    def fail(self, rc: int, what: str) -> NoReturn:
        """Raise LaunchError for a return code, with the library's own text."""
        meaning = RC_MEANING.get(rc, "unknown return code")
        text = self.last_error()
        raise LaunchError(f"{what}: {meaning} (rc={rc})" + (f": {text}" if text else ""), rc=rc)


_REBUILD = "rebuild it: tilegym-rs build --force"
_SWEEP_SECONDS = 0.5
_forked_with_cuda = False


def _expected_build_id(path: Path) -> str | None:
    """Return the build id that the ``build.json`` beside a library names; ``None`` for a library without one.

    Raises:
        BuildError: the file is not the one that was published.
    """
    from .build import publish

    published = publish.read(path.parent)
    if published is None or published.library != path:
        return None
    if not publish.intact(published):
        raise BuildError(f"{path} was damaged after it was published: its SHA-256 differs", stage="load")
    return str(published.manifest["build_id"])


class _Loaded:
    """The library of one crate, for its sources as they are now.

    Attributes:
        root: the crate; ``None`` is this package's own.
    """

    def __init__(self, root: Path | None) -> None:
        self.root = root
        self.lock = threading.Lock()
        self.current: Library | None = None
        self.next_sweep = 0.0

    def get(self) -> Library:
        library = self.current
        if library is not None and time.monotonic() < self.next_sweep:
            return library
        return self._refresh()

    def _refresh(self) -> Library:
        if _forked_with_cuda:
            raise LaunchError(
                "this process was forked after CUDA was initialised, so it cannot use the GPU; start workers with "
                "multiprocessing.get_context('spawn')",
                rc=-4,
            )
        with self.lock:
            if self.current is not None and (time.monotonic() < self.next_sweep or _capturing()):
                return self.current
            from . import build

            if self.current is None or build.sources_changed(self.root):
                path = build.ensure_library(self.root)
                if self.current is None or self.current.path != path:
                    self.current = opened(path, self.root)
            self.next_sweep = time.monotonic() + _SWEEP_SECONDS if _sweeps(self.root) else float("inf")
            return self.current


def opened(path: Path, root: Path | None) -> Library:
    """Open what ``build.ensure_library(root)`` returned; a library that turns out bad is set aside and built once more.

    Raises:
        BuildError: it cannot be loaded, and neither can its successor.
    """
    from . import build

    try:
        return Library(path)
    except BuildError as error:
        if root is None and os.environ.get("TILEGYM_RS_LIBRARY"):
            raise  # a file the user named is never set aside
        build.quarantine(path)
        return Library(build.ensure_library(root, reason=f"the one that was there is bad: {error.args[0]}"))


_own = _Loaded(None)
_others: dict[Path, _Loaded] = {}


def get_library() -> Library:
    """Return the library for the sources as they are now, building and loading it when needed.

    In an editable checkout the sources are swept at most every 0.5 s, never under CUDA-graph capture; an installed
    package is never swept.

    Raises:
        BuildError: it could not be built or loaded.
        LaunchError: in a process forked after CUDA was initialised.
    """
    library = _own.current
    if library is not None and time.monotonic() < _own.next_sweep:
        return library
    return _own.get()


def open(crate_dir: str | os.PathLike[str]) -> Library:
    """Return the library of a crate of kernels of the user's own, building and loading it when needed.

    The crate has the shape of this package's own (docs/own_crate.md). Ask again before each launch, as ops do with
    `get_library`: that costs nothing, and an edited kernel is built and used within 0.5 s.

    Args:
        crate_dir: the folder with its Cargo.toml.

    Raises:
        BuildError: it is no such crate, or could not be built or loaded.
        ToolchainError: a tool to build it with is missing.
        LaunchError: in a process forked after CUDA was initialised.
    """
    root = Path(crate_dir).expanduser().resolve()
    found = _others.get(root)
    return (found or _others.setdefault(root, _Loaded(root))).get()


def loaded() -> Library | None:
    """Return this package's own library if it is loaded; nothing is built."""
    return _own.current


def _sweeps(root: Path | None) -> bool:
    from .build.key import editable
    from .build.key import rust_root

    if os.environ.get("TILEGYM_RS_RELOAD") == "0" or (root is None and os.environ.get("TILEGYM_RS_LIBRARY")):
        return False
    try:
        return editable(root or rust_root())
    except BuildError:
        return False  # a bundle carries no sources


def _capturing() -> bool:
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def reload() -> Library:
    """Forget the sweep's timer and load the library for the sources as they are now."""
    for each in (_own, *_others.values()):
        each.next_sweep = 0.0
    return get_library()


def check_rc(rc: int, name: str) -> None:
    """Raise LaunchError unless a return code is 0."""
    if rc:
        library = loaded()
        if library is None:
            raise LaunchError(f"{name}: rc={rc}", rc=rc)
        library.fail(rc, name)


def _before_fork() -> None:
    global _cuda_before_fork
    torch = __import__("sys").modules.get("torch")
    _cuda_before_fork = bool(torch is not None and torch.cuda.is_initialized())


def _after_fork_in_child() -> None:
    global _forked_with_cuda
    _forked_with_cuda = _forked_with_cuda or _cuda_before_fork
    for each in (_own, *_others.values()):
        each.lock = threading.Lock()  # a thread of the parent may hold the old one for ever
        if _cuda_before_fork:
            each.next_sweep = 0.0


_cuda_before_fork = False
os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)

__all__ = ["ABI_VERSION", "Library", "TilegymRsError", "check_rc", "get_library", "loaded", "open", "reload"]
