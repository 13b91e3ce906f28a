# SPDX-License-Identifier: MIT
"""What names a launch's translation: the kernel's sources, its constants, the facts about its arguments."""

from __future__ import annotations

import hashlib
import inspect
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from .signature import signature

if TYPE_CHECKING:
    from .capture import CapturedLaunch


def key_of(launch: CapturedLaunch) -> str:
    """Name everything that decides a launch's translation."""
    parts = [
        launch.name,
        sources_digest(launch.kernel._annotated_function.pyfunc),
        repr(sorted((name, repr(value)) for name, value in launch.constants.items())),
        repr(signature(launch).parameters),
        launch.arch,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=512)
def sources_digest(function: Any) -> str:
    """Digest the files that a kernel's text comes from: its own, and those of the functions it names."""
    files: set[str] = set()
    _files_of(function, files, set())
    digest = hashlib.sha256()
    for content in sorted(Path(name).read_bytes() for name in files):  # the same wherever they are installed
        digest.update(content)
    return digest.hexdigest()


def _files_of(function: Any, files: set[str], seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    code = function.__code__
    if os.path.isfile(code.co_filename):
        files.add(code.co_filename)
    for name in code.co_names:
        value = function.__globals__.get(name)
        value = getattr(value, "__wrapped__", getattr(value, "_pyfunc", value))
        if inspect.isfunction(value) and not value.__module__.startswith("cuda."):
            _files_of(value, files, seen)
