# SPDX-License-Identifier: MIT
"""Published libraries: a folder per build key, complete from the moment it has its name."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..contract import ABI_VERSION as ABI
from ..errors import BuildError
from ..toolchain.dirs import build_dir
from ..toolchain.dirs import build_dirs
from ..toolchain.dirs import made
from .key import TARGET
from .key import Key

MANIFEST = "build.json"
STALE_STAGING_S = 3600.0
_SHELF = f"{TARGET}-abi{ABI}"


_refused: set[str] = set()


@dataclass(frozen=True)
class Published:
    """A complete published library: its folder, the shared object in it, and its ``build.json``."""

    folder: Path
    library: Path
    manifest: dict[str, Any]


def shelf() -> Path:
    """Return the folder that libraries are published in, one subfolder per build key."""
    return build_dir() / _SHELF


def shelves() -> list[Path]:
    """Return the folders that libraries are looked for in: `shelf` and those that are only read."""
    return [each / _SHELF for each in build_dirs()]


def log_dir() -> Path:
    """Return the folder of build logs, made if missing; a failed build's log stays here."""
    return made(build_dir() / "logs")


def read(folder: Path) -> Published | None:
    """Return what ``folder`` holds, or ``None`` when it is not there or not complete."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        library = folder / str(manifest["library"])
        if manifest["abi"] != ABI or library.stat().st_size != manifest["size"]:
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Published(folder, library, manifest)


def intact(published: Published) -> bool:
    """Whether the library's bytes are those that were published."""
    try:
        return hashlib.sha256(published.library.read_bytes()).hexdigest() == published.manifest.get("sha256")
    except OSError:
        return False


def everything(place: Path | None = None) -> Iterator[Published]:
    """Yield the libraries published in ``place``, by default in `shelf`; newest first."""
    dated = []
    with contextlib.suppress(OSError):
        for folder in (place or shelf()).iterdir():
            with contextlib.suppress(OSError):
                if "." not in folder.name:
                    dated.append(((folder / MANIFEST).stat().st_mtime, folder))
    for _, folder in sorted(dated, reverse=True):
        published = read(folder)
        if published is not None and usable(published):
            yield published


def usable(published: Published) -> bool:
    """Whether this process has not found the library bad (`refuse`)."""
    return str(published.library) not in _refused


def refuse(library: Path) -> None:
    """Do not offer a library again in this process: it was opened and turned out bad."""
    _refused.add(str(library))


def by_key(key: str) -> Published | None:
    """Return the library published under a build key's 16 digits."""
    found = (read(place / key) for place in shelves())
    return next((each for each in found if each is not None and usable(each)), None)


def by_source(source: str) -> Published | None:
    """Return the newest library published for a source key, whatever compiler built it."""
    found = (each for place in shelves() for each in everything(place))
    return next((each for each in found if each.manifest.get("source_key") == source), None)


def latest(crate: str, root: Path) -> Published | None:
    """Return the newest library of the crate that lies in ``root``, else of one with its name."""
    found = [each for place in shelves() for each in everything(place) if each.manifest.get("crate") == crate]
    here = (each for each in found if each.manifest.get("root") == str(root))
    return next(here, found[0] if found else None)


def manifest_of(key: Key, crate: str, library: Path, **extra: object) -> dict[str, Any]:
    """Return the ``build.json`` of a library file under ``key``."""
    content = library.read_bytes()
    return {
        "abi": ABI,
        "build_id": key.short,
        "components": key.components,
        "crate": crate,
        "created": time.time(),
        "files": key.files,
        "key": key.digest,
        "library": library.name,
        "sha256": hashlib.sha256(content).hexdigest(),
        "size": len(content),
        "source_key": key.source,
        **extra,
    }


def publish(key: Key, crate: str, artifact: Path, extras: Sequence[Path], log: Path, **facts: object) -> Published:
    """Copy a built library to its place under ``key`` and return it; when somebody was faster, theirs.

    Everything is written into a staging folder, ``build.json`` last, and appears by one rename.

    Raises:
        BuildError: it cannot be written (stage ``publish``).
    """
    place = shelf() / key.short
    staging = shelf() / f".staging-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        staging.mkdir(mode=0o700, parents=True)
        library = staging / f"{artifact.stem}-{key.short}{artifact.suffix}"
        shutil.copyfile(artifact, library)
        for extra in extras:
            shutil.copyfile(extra, staging / extra.name)
        shutil.copyfile(log, staging / "build.log")
        manifest = manifest_of(key, crate, library, **facts)
        for entry in staging.iterdir():
            _sync(entry)
        _write_synced(staging / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
        _rename(staging, place)
    except OSError as error:
        raise BuildError(
            f"the built library cannot be put in {place}: {error}",
            stage="publish",
            log_path=log,
            hints=("free some disk space, or set TILEGYM_RS_CACHE_DIR to another directory",),
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    published = read(place)
    if published is None:
        raise BuildError(f"{place} was published but is not complete", stage="publish", log_path=log)
    return published


def copy_to(published: Published, folder: Path) -> Path:
    """Copy a published library with its header and ``build.json`` into ``folder``; return the copy of the library."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{published.library.name.split('-')[0]}-*.so"):
        old.unlink()
    for entry in sorted(published.folder.iterdir(), key=lambda each: each.name == MANIFEST):
        if entry.name != "build.log":
            shutil.copyfile(entry, folder / entry.name)
    return folder / published.library.name


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_synced(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _rename(staging: Path, place: Path) -> None:
    for _ in range(3):
        try:
            staging.rename(place)
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if read(place) is not None:
                return
            set_aside(place)  # an incomplete folder: somebody deleted or damaged files in it
    raise OSError(errno.EEXIST, "another process keeps putting incomplete folders there", str(place))


def set_aside(folder: Path) -> Path | None:
    """Rename a folder to ``<name>.bad-<time>`` so that nothing finds it any more; ``None`` when that cannot be done."""
    aside = folder.with_name(f"{folder.name}.bad-{time.time_ns()}")
    try:
        folder.rename(aside)
    except OSError:
        return None
    return aside


def sweep_staging() -> None:
    """Delete staging folders that killed builds left an hour or longer ago, by the clock of the filesystem.

    This host's clock may be hours away from that of the server whose disk it is.
    """
    with contextlib.suppress(OSError):
        with tempfile.TemporaryFile(dir=shelf()) as probe:
            now = os.fstat(probe.fileno()).st_mtime
        for folder in shelf().glob(".staging-*"):
            with contextlib.suppress(OSError):
                if now - folder.stat().st_mtime > STALE_STAGING_S:
                    shutil.rmtree(folder, ignore_errors=True)
