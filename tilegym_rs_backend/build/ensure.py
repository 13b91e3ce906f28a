# SPDX-License-Identifier: MIT
"""The one way to a library: the cheapest place that has it for the current sources, else a build."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ..errors import BuildError
from ..errors import ToolchainError
from ..progress import say
from ..toolchain.cargo import Cargo
from ..toolchain.cargo import find_cargo
from ..toolchain.dirs import lock_dir
from ..toolchain.toolkit import Toolkit
from ..toolchain.toolkit import survey
from . import crate
from . import explain
from . import key as keys
from . import preflight
from . import publish
from . import sweep
from .lock import build_lock

ATTEMPTS = 3

_here = threading.RLock()
_failed: dict[str, BuildError] = {}


def _after_fork_in_child() -> None:
    global _here
    _here = threading.RLock()  # a thread of the parent may hold the old one for ever


os.register_at_fork(after_in_child=_after_fork_in_child)


def autobuild() -> bool:
    """Whether building on demand is allowed (TILEGYM_RS_AUTOBUILD=0 and CUTILE_RS_AUTOBUILD=0 forbid it)."""
    return all(os.environ.get(name, "1") != "0" for name in ("TILEGYM_RS_AUTOBUILD", "CUTILE_RS_AUTOBUILD"))


def shipped(source: str) -> publish.Published | None:
    """Return the library that came with the installation, when it was built from exactly these sources."""
    found = publish.read(Path(__file__).resolve().parent.parent / "_lib")
    if found is None or found.manifest.get("source_key") != source or not publish.usable(found):
        return None
    return found


def ensure_library(
    root: Path | None = None,
    *,
    reason: str = "",
    features: Sequence[str] = (),
    force: bool = False,
) -> Path:
    """Return the shared library for the current sources of the crate in ``root``, building it if nobody has.

    Order: TILEGYM_RS_LIBRARY; the library shipped with the package; the published one; cargo. One process per node
    builds a key, the others wait for it. A key that failed to build in this process is not tried again.

    Args:
        root: a crate of this package's shape; its own by default.
        reason: put into the line printed when a build starts; worked out from the keys when empty.
        features: cargo features.
        force: run cargo although a library is there, an earlier build failed or TILEGYM_RS_AUTOBUILD=0.

    Raises:
        BuildError: there is none and it cannot be built.
        ToolchainError: cargo, cc, libclang or the CUDA toolkit is missing.
    """
    explicit = os.environ.get("TILEGYM_RS_LIBRARY", "").strip()
    if explicit and root is None:
        path = Path(explicit).expanduser().absolute()
        if not path.is_file():
            raise BuildError(f"TILEGYM_RS_LIBRARY={path} is not a file; correct it or unset it", stage="load")
        return path
    where = root.resolve() if root is not None else keys.rust_root()
    with _here:
        for _ in range(ATTEMPTS):
            signature, taken = sweep.snapshot(where)
            source = keys.source_key(where, features=features)
            found = None if force else _without_building(where, source, features)
            if found is None:
                found = _build(where, source, reason=reason, features=features, force=force)
            if found is not None:
                sweep.watch(where, source, signature, taken)
                return found.library
    raise BuildError(f"the sources in {where} kept changing during {ATTEMPTS} builds; try again", stage="cargo")


def _key(where: Path, features: Sequence[str]) -> tuple[keys.Key, Toolkit]:
    toolkit = preflight.tools()
    return keys.build_key(where, toolkit=toolkit, features=features), toolkit


def _without_building(where: Path, source: str, features: Sequence[str]) -> publish.Published | None:
    found = shipped(source)
    if found is not None:
        return found
    cargo = _cargo()
    toolkit, _ = survey(headers=True)
    if cargo is None or toolkit is None:
        return publish.by_source(source)  # nothing here could build a better one
    found = publish.by_key(keys.build_key(where, toolkit=toolkit, cargo=cargo, features=features).short)
    return found or (None if autobuild() else publish.by_source(source))  # nor may it


def _cargo() -> Cargo | None:
    try:
        return find_cargo()
    except ToolchainError:
        return None


def _build(where: Path, source: str, *, reason: str, features: Sequence[str], force: bool) -> publish.Published | None:
    """Build and publish; ``None`` when the sources changed meanwhile, so that what came out fits no key."""
    if not autobuild() and not force:
        places = ", ".join(str(each) for each in publish.shelves())
        raise BuildError(
            f"no library for the sources in {where} (source key {source[:16]}) and building on demand is switched off "
            f"(TILEGYM_RS_AUTOBUILD=0 or CUTILE_RS_AUTOBUILD=0); looked in the package and in {places}",
            stage="preflight",
            hints=("run `tilegym-rs build`, unset the variable, or set TILEGYM_RS_LIBRARY to a built library",),
        )
    key, toolkit = _key(where, features)
    if key.source != source:
        return None
    if not force and key.short in _failed:
        raise _failed[key.short]
    log = publish.log_dir() / f"{key.short}.log"
    started = time.time()
    with build_lock(lock_dir() / f"{key.short}.lock", key=key.short, log=log, say=say) as held:
        found = publish.by_key(key.short)
        if found is not None and not force:
            return found
        try:
            if held.waited > 0.2:
                _raise_siblings_failure(log, since=started)
            old = publish.latest(crate.name_of(where), where)
            say(f"building {where.name}: {reason or explain.why(old.manifest if old else None, key)} (log: {log})")
            return crate.build(where, key, toolkit, features=features, log=log, say=say, replace=force)
        except BuildError as error:
            _failed[key.short] = error
            _tell_siblings(log, error)
            raise


def _error_file(log: Path) -> Path:
    return log.with_suffix(".error.json")


def _tell_siblings(log: Path, error: BuildError) -> None:
    record = {
        "time": time.time(),
        "message": error.args[0],
        "stage": error.stage,
        "command": error.command,
        "returncode": error.returncode,
        "log_path": str(error.log_path or log),
        "hints": error.hints,
    }
    try:
        _error_file(log).write_text(json.dumps(record), encoding="utf-8")
    except OSError:
        return


def _raise_siblings_failure(log: Path, *, since: float) -> None:
    """Raise the error of the process this one waited for, instead of failing in the same way once more."""
    try:
        record = json.loads(_error_file(log).read_text(encoding="utf-8"))
        if float(record["time"]) < since:
            return
        error = BuildError(
            str(record["message"]),
            stage=str(record["stage"]),
            command=[str(each) for each in record["command"]],
            returncode=record["returncode"],
            log_path=Path(record["log_path"]),
            hints=[str(each) for each in record["hints"]],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return
    raise error


def quarantine(path: Path) -> Path | None:
    """Put a library aside that turned out bad after it was opened, so that the next ensure_library builds anew.

    A published one is renamed (mapped copies stay valid) and its new folder returned; one that came with the
    installation, or from a cache that is only read, is not offered again in this process.

    Raises:
        BuildError: it is the one TILEGYM_RS_LIBRARY names, which nobody may replace.
    """
    explicit = os.environ.get("TILEGYM_RS_LIBRARY", "").strip()
    if explicit and Path(explicit).expanduser().absolute() == path:
        raise BuildError(f"TILEGYM_RS_LIBRARY={path} does not fit this version; unset it or rebuild it", stage="load")
    aside = publish.set_aside(path.parent) if path.parent.parent == publish.shelf() else None
    if aside is None:
        publish.refuse(path)
    return aside
