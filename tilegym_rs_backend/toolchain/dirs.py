# SPDX-License-Identifier: MIT
"""Where this package reads and writes: a chain of cache directories, and a local one for locks and cargo's target.

``TILEGYM_RS_CACHE_DIR`` is a chain like PATH, ``A:B:C``: everything is written to A, and what A lacks is looked for in
B and C, which are only read. An empty A is the user's own cache directory, ``off`` a private one that goes at the exit.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..errors import ToolchainError
from .mounts import mount_of
from .mounts import reading_refusal
from .mounts import refusal

CACHE_VARIABLE = "TILEGYM_RS_CACHE_DIR"
OFF = "off"

_passing: dict[int, Path] = {}


def _chain() -> list[str]:
    return [part.strip() for part in os.environ.get(CACHE_VARIABLE, "").split(os.pathsep)]


def _private_temporary() -> Iterator[Path]:
    name = f"tilegym-rs-{os.geteuid()}"
    for parent in dict.fromkeys((tempfile.gettempdir(), "/var/tmp", "/tmp", "/dev/shm")):
        yield Path(parent) / name


def _user_cache() -> Path:
    try:
        from platformdirs import user_cache_path
    except ImportError:  # the bootstrap runs before anything is installed
        base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
        return Path(base) / "tilegym-rs"
    return Path(user_cache_path("tilegym-rs", appauthor=False))


def cache_dir() -> Path:
    """Return the directory that everything is written to: mode 0700, ours, writable, not mounted noexec.

    The first of ``TILEGYM_RS_CACHE_DIR`` when set, and then no other; else the user's cache directory; else a private
    folder under the temporary directory with one warning.

    Raises:
        ToolchainError: ``TILEGYM_RS_CACHE_DIR`` cannot be used, or no candidate can.
    """
    first = _chain()[0]
    if first == OFF:
        return _passing_dir()
    environment = (first, *(os.environ.get(name, "") for name in ("XDG_CACHE_HOME", "HOME", "TMPDIR")))
    return _choose_cache(environment, os.geteuid())


def read_only_dirs() -> tuple[Path, ...]:
    """Return the directories that are only read, from ``TILEGYM_RS_CACHE_DIR`` after its first.

    Raises:
        ToolchainError: one is not there, or somebody else could put code into it.
    """
    return _choose_read_only(tuple(part for part in _chain()[1:] if part))


def cache_dirs() -> tuple[Path, ...]:
    """Return where things are looked for: `cache_dir` first, then `read_only_dirs`."""
    return (cache_dir(), *read_only_dirs())


@lru_cache(maxsize=16)
def _choose_cache(environment: tuple[str, ...], _uid: int) -> Path:
    explicit = environment[0]
    if explicit:
        path = Path(explicit).expanduser().absolute()
        why = refusal(path, tighten=False)
        if why is not None:
            raise ToolchainError(
                f"{CACHE_VARIABLE}={path} {why}. Set it to a directory of your own, or unset it; to only read from it, "
                f"write a colon before it: {CACHE_VARIABLE}=:{path}"
            )
        return path
    rejected: list[str] = []
    for path in (_user_cache(), *_private_temporary()):
        why = refusal(path)
        if why is None:
            if rejected:
                warnings.warn(
                    f"tilegym-rs keeps its builds in {path}, because {rejected[0]}. "
                    f"Set {CACHE_VARIABLE} to a directory that stays.",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return path
        rejected.append(f"{path} {why}")
    tried = "\n".join(f"  {line}" for line in rejected)
    raise ToolchainError(f"no directory to keep builds in; tried:\n{tried}\nSet {CACHE_VARIABLE} to a writable one.")


@lru_cache(maxsize=16)
def _choose_read_only(parts: tuple[str, ...]) -> tuple[Path, ...]:
    found: list[Path] = []
    for part in parts:
        path = Path(part).expanduser().absolute()
        why = reading_refusal(path)
        if why is not None:
            raise ToolchainError(f"{path}, named in {CACHE_VARIABLE} to be read, {why}. Mend that, or take it out.")
        found.append(path)
    return tuple(found)


def _passing_dir() -> Path:
    process = os.getpid()
    if process not in _passing:
        made = Path(tempfile.mkdtemp(prefix="tilegym-rs-off-"))
        if _passing.setdefault(process, made) is made:
            atexit.register(_remove_passing, process)
        else:  # another thread was faster
            made.rmdir()
    return _passing[process]


def _remove_passing(process: int) -> None:
    if os.getpid() == process:  # a forked child runs its parent's exit functions too
        shutil.rmtree(_passing[process], ignore_errors=True)


def local_dir() -> Path:
    """Return the directory for locks and cargo's target folder: the cache, or a local one when that is shared.

    Raises:
        ToolchainError: the cache is on a network filesystem and no local directory can be written.
    """
    cache = cache_dir()
    if not mount_of(cache).network:
        return cache
    return _choose_local(str(cache), os.environ.get("TMPDIR", ""))


@lru_cache(maxsize=16)
def _choose_local(cache: str, _environment: str) -> Path:
    rejected: list[str] = []
    for path in _private_temporary():
        why = "is on a network filesystem" if mount_of(path).network else refusal(path)
        if why is None:
            return path
        rejected.append(f"{path} {why}")
    tried = "\n".join(f"  {line}" for line in rejected)
    raise ToolchainError(
        f"the cache {cache} is on a network filesystem and no local directory for locks was found; tried:\n{tried}\n"
        "Set TMPDIR to a directory on a local disk."
    )


def made(path: Path) -> Path:
    """Return ``path``, a directory that is made private if it is missing.

    Raises:
        ToolchainError: it cannot be made, such as on a full disk.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ToolchainError(
            f"{path} cannot be made: {error.strerror or error}. Free some disk space, or set {CACHE_VARIABLE} to "
            "another directory."
        ) from error
    return path


def prefix_dir() -> Path:
    """Return the folder that private prefixes are installed in, one subfolder per lock."""
    return cache_dir() / "prefix"


def prefix_dirs() -> list[Path]:
    """Return the folders that private prefixes are looked for in."""
    return [each / "prefix" for each in cache_dirs()]


def store_dir() -> Path:
    """Return the folder of the cubin store that is written to."""
    return cache_dir() / "store"


def tune_dir() -> Path:
    """Return the folder of what the tuner chose and planned."""
    return cache_dir() / "tune"


def store_dirs() -> list[Path]:
    """Return the folders of the cubin stores that are read."""
    return [each / "store" for each in cache_dirs()]


def build_dir() -> Path:
    """Return the folder that libraries are published in."""
    return cache_dir() / "build"


def build_dirs() -> list[Path]:
    """Return the folders that published libraries are looked for in."""
    return [each / "build" for each in cache_dirs()]


def target_dir() -> Path:
    """Return what holds cargo's target folders, one per toolkit; the lazy build, clippy and the tests share it."""
    return local_dir() / "target"


def lock_dir() -> Path:
    """Return the folder of the lock files, made if missing."""
    return made(local_dir() / "locks")
