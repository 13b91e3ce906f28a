# SPDX-License-Identifier: MIT
"""The loaded Rust library: dlopen, declarations, error texts, and reload after a source changed."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any
from typing import NoReturn

from .errors import BuildError
from .errors import LaunchError
from .errors import TilegymRsError

ABI_VERSION = 1

# The fixed functions. Typed exports (`cutile_<kernel>`) are declared one by one on demand: all at once costs 80 ms.
_CDEF = """
typedef struct { uint64_t ptr; int32_t ndim; int64_t shape[5]; int64_t strides[5]; int32_t dtype; } TensorDesc;
int32_t cutile_abi_version(void);
const char* cutile_build_id(void);
const char* cutile_describe(void);
const char* cutile_header(void);
int64_t cutile_last_error(char* buf, int64_t cap);
int64_t cutile_spec(const char* kernel, const TensorDesc* const* descs, int32_t n_descs, const int32_t* constants,
    int32_t n_constants, int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps);
int64_t cutile_spec_text(int64_t token, char* buf, int64_t cap);
int32_t cutile_emit(int64_t token, const char* arch, uint8_t** out, int64_t* len);
void cutile_free(uint8_t* p, int64_t len);
int32_t cutile_load(int64_t token, int32_t device, const uint8_t* cubin, int64_t len);
int32_t cutile_loaded(int64_t token, int32_t device);
int32_t cutile_plan(const char* kernel, const TensorDesc* const* descs, int32_t n_descs, const uint64_t* scalars,
    int32_t n_scalars, const int32_t* constants, int32_t n_constants, int32_t grid_x, int32_t grid_y, int32_t grid_z,
    int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps, int32_t device_id, void** plan);
int32_t cutile_run_plan(const void* plan, uint64_t raw_stream, uint64_t p0, uint64_t p1, uint64_t p2, uint64_t p3);
int32_t cutile_run_plan_array(const void* plan, uint64_t raw_stream, const uint64_t* pointers, int32_t n_pointers,
    const uint64_t* scalars, int32_t n_scalars);
void cutile_plan_free(void* plan);
"""

_RC_MEANING = {
    1: "the kernel is not loaded",
    -2: "unsupported dtype or enum value",
    -3: "launch or compile error",
    -4: "device or stream error",
    -5: "null descriptor",
    -6: "invalid arguments",
    -7: "panic caught in the library",
}


class Library:
    """One loaded `libcutile_kernels.so`. Never unloaded: captured graphs hold its functions.

    Attributes:
        path: the file that was opened.
        ffi, lib: cffi's views of it.
        build_id: the build key that was compiled in.
    """

    def __init__(self, path: Path) -> None:
        import cffi

        self.path = path
        self.ffi = cffi.FFI()
        self.ffi.cdef(_CDEF)
        try:
            self.lib = self.ffi.dlopen(str(path), self.ffi.RTLD_NOW | self.ffi.RTLD_LOCAL)
            version = int(self.lib.cutile_abi_version())
        except (OSError, AttributeError) as error:
            raise BuildError(f"cannot load {path}: {error}", stage="load") from error
        if version != ABI_VERSION:
            raise BuildError(
                f"{path} speaks ABI {version}, this package speaks {ABI_VERSION}",
                stage="load",
                hints=["rebuild it: tilegym-rs build --force"],
            )
        self.build_id = self.ffi.string(self.lib.cutile_build_id()).decode()
        self._describe: dict[str, Any] | None = None
        self._declared: set[str] = set()
        self._lock = threading.Lock()

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
        meaning = _RC_MEANING.get(rc, "unknown return code")
        text = self.last_error()
        raise LaunchError(f"{what}: {meaning} (rc={rc})" + (f": {text}" if text else ""), rc=rc)


_lock = threading.Lock()
_current: Library | None = None
_next_sweep = 0.0
_SWEEP_SECONDS = 0.5
_forked_with_cuda = False


def get_library() -> Library:
    """Return the library for the sources as they are now, building and loading it when needed.

    In an editable checkout the sources are swept at most every 0.5 s, never under CUDA-graph capture; an installed
    package is never swept.

    Raises:
        BuildError: it could not be built or loaded.
        LaunchError: in a process forked after CUDA was initialised.
    """
    library = _current
    if library is not None and time.monotonic() < _next_sweep:
        return library
    return _refresh()


def _refresh() -> Library:
    global _current, _next_sweep
    if _forked_with_cuda:
        raise LaunchError(
            "this process was forked after CUDA was initialised, so it cannot use the GPU; start workers with "
            "multiprocessing.get_context('spawn')",
            rc=-4,
        )
    with _lock:
        if _current is not None and (time.monotonic() < _next_sweep or _capturing()):
            return _current
        from . import build

        if _current is None or build.sources_changed():
            _current = _load(build.ensure_library())
        _next_sweep = time.monotonic() + _SWEEP_SECONDS if _sweeps() else float("inf")
        return _current


def _load(path: Path) -> Library:
    from . import build

    if _current is not None and _current.path == path:
        return _current
    try:
        return Library(path)
    except BuildError:
        if os.environ.get("TILEGYM_RS_LIBRARY"):
            raise  # a file the user named is never set aside
        build.quarantine(path)
        return Library(build.ensure_library(reason="the published library could not be loaded"))


def _sweeps() -> bool:
    from .build.key import editable
    from .build.key import rust_root

    if os.environ.get("TILEGYM_RS_RELOAD") == "0" or os.environ.get("TILEGYM_RS_LIBRARY"):
        return False
    try:
        return editable(rust_root())
    except BuildError:
        return False  # a bundle carries no sources


def _capturing() -> bool:
    import torch

    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def reload() -> Library:
    """Forget the sweep's timer and load the library for the sources as they are now."""
    global _next_sweep
    _next_sweep = 0.0
    return get_library()


def check_rc(rc: int, name: str) -> None:
    """Raise LaunchError unless a return code is 0."""
    if rc:
        library = _current
        if library is None:
            raise LaunchError(f"{name}: rc={rc}", rc=rc)
        library.fail(rc, name)


def _before_fork() -> None:
    global _cuda_before_fork
    torch = __import__("sys").modules.get("torch")
    _cuda_before_fork = bool(torch is not None and torch.cuda.is_initialized())


def _after_fork_in_child() -> None:
    global _forked_with_cuda, _next_sweep, _lock
    _lock = threading.Lock()  # a thread of the parent may hold the old one for ever
    if _cuda_before_fork:
        _forked_with_cuda = True
        _next_sweep = 0.0


_cuda_before_fork = False
os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)

__all__ = ["ABI_VERSION", "Library", "TilegymRsError", "check_rc", "get_library", "reload"]
