# SPDX-License-Identifier: MIT
"""Loads cupti-python together with the libcupti it was made for.

Both live in a private prefix that is on nobody's ``sys.path``, because their pins and torch's cannot be resolved
together. Two things go wrong without this module: the package is not importable, and cupti-python takes whichever
``libcupti.so.13`` the process has mapped already, which is torch's older one as soon as torch was imported.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_cutile_rs.timing.base import TimingUnavailable

LIBRARY_FOLDERS = ("nvidia/cu13/lib", "nvidia/cuda_cupti/lib", "lib")
LIBRARY_NAME = "libcupti.so.13"


@dataclass(frozen=True)
class LoadedCupti:
    """The module ``cupti.cupti``, the library it drives, that library's version and where the pair came from."""

    module: Any
    library: str
    version: int
    origin: str


@dataclass(frozen=True)
class _Answer:
    """What cupti-python reads of cuda.pathfinder's answer."""

    abs_path: str
    _handle_uint: int
    was_already_loaded_from_elsewhere: bool = True
    found_via: str = "tilegym-rs prefix"


def default_prefix() -> Path | None:
    """The prefix that ``tilegym-rs setup --parity`` fills, or None where the toolchain package is not there."""
    try:
        from tilegym_rs_backend.toolchain.prefix import cupti_prefix
    except ImportError:
        return None
    return cupti_prefix()


def find_library(prefix: Path) -> Path | None:
    """libcupti below the prefix, or None."""
    candidates = (prefix / folder / LIBRARY_NAME for folder in LIBRARY_FOLDERS)
    return next((path for path in candidates if path.is_file()), None)


def load_cupti(prefix: Path | None = None) -> LoadedCupti:
    """Import cupti-python, from ``prefix`` unless it is importable already, on the prefix's libcupti if there is one.

    ``sys.path`` is unchanged afterwards. Raises TimingUnavailable (``no_cupti``) that says what to install.
    """
    prefix = prefix or default_prefix()
    spec = importlib.util.find_spec("cupti")
    here = spec is not None
    folders = [prefix] if prefix else []
    if spec is not None and spec.origin:
        folders.append(Path(spec.origin).parents[1])  # wheels unpacked side by side, as in a bundle
    # A module that was used before has opened its library already; which one, the process's map tells.
    fresh = "cupti.cupti" not in sys.modules
    library = next((path for folder in folders if (path := find_library(folder))), None) if fresh else None
    if not here and (prefix is None or not (prefix / "cupti").is_dir()):
        where = f"neither on sys.path nor in {prefix}" if prefix else "not on sys.path, and no prefix is known"
        raise TimingUnavailable(
            "no_cupti", f"cupti-python is {where}. Fix: tilegym-rs setup --parity installs it into the private prefix."
        )
    try:
        with _importable(None if here else prefix), _resolving(library):
            module = importlib.import_module("cupti.cupti")
            module.get_timestamp()  # the library is opened by the first call, not by the import
    except TimingUnavailable:
        raise
    except ImportError as problem:
        raise TimingUnavailable(
            "no_cupti",
            f"cupti-python cannot be imported: {problem}. Fix: pip install what is missing (pyelftools, numpy).",
        ) from problem
    except Exception as problem:
        raise TimingUnavailable(
            "no_cupti", f"cupti-python does not start: {type(problem).__name__}: {problem}. A CUDA driver is needed."
        ) from problem
    used = str(library) if library else _mapped_library()
    return LoadedCupti(module, used, _version(used), "sys.path" if here else str(prefix))


@contextmanager
def _importable(prefix: Path | None) -> Iterator[None]:
    """Last on ``sys.path``, and only during the import: nothing else of the prefix may reach torch's environment."""
    if prefix is None:
        yield
        return
    sys.path.append(str(prefix))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(prefix))


@contextmanager
def _resolving(library: Path | None) -> Iterator[None]:
    """While cupti-python looks for its library, cuda.pathfinder answers with ours."""
    if library is None:
        yield
        return
    try:
        pathfinder: Any = importlib.import_module("cuda.pathfinder")
    except ImportError as problem:
        raise TimingUnavailable(
            "no_cupti", "cupti-python needs the package cuda-pathfinder, which torch for CUDA 13 brings. It is missing."
        ) from problem
    try:
        handle = ctypes.CDLL(str(library))._handle
    except OSError as problem:
        raise TimingUnavailable("no_cupti", f"{library} cannot be loaded: {problem}.") from problem
    original = pathfinder.load_nvidia_dynamic_lib

    def answer(libname: str) -> Any:
        return _Answer(str(library), handle) if libname == "cupti" else original(libname)

    pathfinder.load_nvidia_dynamic_lib = answer
    try:
        yield
    finally:
        pathfinder.load_nvidia_dynamic_lib = original


def _mapped_library() -> str:
    """The libcupti that this process has mapped, empty when the kernel does not tell."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return ""
    return next((line.split(maxsplit=5)[-1] for line in lines if "libcupti.so" in line), "")


def _version(library: str) -> int:
    """cuptiGetVersion of the library, 0 when it cannot be asked."""
    number = ctypes.c_uint32(0)
    try:
        ctypes.CDLL(library or LIBRARY_NAME).cuptiGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return 0
    return number.value
