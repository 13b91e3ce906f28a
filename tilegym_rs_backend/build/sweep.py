# SPDX-License-Identifier: MIT
"""Notice edits to the sources of a loaded library, at the price of a few stat calls every half second."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import BuildError
from . import key as keys

INTERVAL_S = 0.5
# As long as the newest change is this close to the moment of looking, another one may hide behind equal time stamps.
_RACY_NS = 20_000_000

Signature = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass
class _Watched:
    source: str
    signature: Signature
    taken_ns: int
    next_look: float


_watched: dict[str, _Watched] = {}
_guard = threading.Lock()


def _look(root: Path) -> Signature:
    return tuple((name, keys.stat_signature(root / name)) for name in keys.source_files(root))


def _settled(signature: Signature, taken_ns: int) -> bool:
    return max((each[2] for _, each in signature), default=0) + _RACY_NS < taken_ns


def watch(root: Path, source: str, signature: Signature | None, taken_ns: int) -> None:
    """Remember what the sources looked like just before ``source`` was computed from them."""
    if signature is not None and keys.editable(root):
        with _guard:
            _watched[str(root)] = _Watched(source, signature, taken_ns, time.monotonic() + INTERVAL_S)


def snapshot(root: Path) -> tuple[Signature | None, int]:
    """Return the sources' stat signature and the time it was taken; ``None`` for what is never swept."""
    if not keys.editable(root):
        return None, 0
    taken = time.time_ns()
    return _look(root), taken


def sources_changed(root: Path | None = None) -> bool:
    """Whether the sources differ in content from those the library was last ensured for.

    Looks at most every 0.5 s; between looks, for an installed package, with TILEGYM_RS_LIBRARY set or
    TILEGYM_RS_RELOAD=0, the answer is ``False``. A deleted file is a change.
    """
    where = root.resolve() if root is not None else keys.rust_root()
    watched = _watched.get(str(where))
    if watched is None or time.monotonic() < watched.next_look:
        return False
    if os.environ.get("TILEGYM_RS_RELOAD") == "0" or (root is None and os.environ.get("TILEGYM_RS_LIBRARY")):
        return False
    with _guard:
        watched.next_look = time.monotonic() + INTERVAL_S
        taken = time.time_ns()
        try:
            signature = _look(where)
            if signature == watched.signature and _settled(watched.signature, watched.taken_ns):
                return False
            changed = keys.source_key(where) != watched.source
        except (BuildError, OSError):
            return True  # something is missing right now; ensure_library says what
        if not changed:
            watched.signature, watched.taken_ns = signature, taken
        return changed
