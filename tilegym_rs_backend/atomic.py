# SPDX-License-Identifier: MIT
"""Files that a reader finds as they were or as they are, never a part: written aside, put in place by a rename."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from pathlib import Path


def write(path: Path, content: str | bytes) -> None:
    """Write a file with the modes that the umask gives.

    Raises:
        OSError: it cannot be written.
    """
    staged = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    staged.write_bytes(content.encode() if isinstance(content, str) else content)
    staged.replace(path)


def keep(path: Path, content: str | bytes) -> None:
    """Write a private file, in a private folder made if need be; if that fails, nothing is kept, and nobody told."""
    staged: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, staged = tempfile.mkstemp(dir=path.parent, prefix=".")
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.replace(staged, path)
    except OSError:
        if staged is not None:
            with contextlib.suppress(OSError):
                Path(staged).unlink(missing_ok=True)
