# SPDX-License-Identifier: MIT
"""Where a CUDA toolkit may be, in the order it is looked for."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import prefix

LOCAL = Path("/usr/local")


@dataclass(frozen=True)
class Candidate:
    """One place to look.

    Attributes:
        root: the toolkit's folder, which holds ``include/`` and ``bin/``.
        origin: what pointed there, for messages.
        only: nothing else may be used when it is unfit.
        any_version: a tileiras other than the tested one is accepted.
    """

    root: Path
    origin: str
    only: bool = False
    any_version: bool = False


def candidates() -> Iterator[Candidate]:
    """Yield the candidates, best first; an environment variable set to an empty string counts as unset."""
    explicit = os.environ.get("TILEGYM_RS_TOOLKIT", "").strip()
    if explicit:
        yield Candidate(Path(explicit).expanduser(), "TILEGYM_RS_TOOLKIT", only=True, any_version=True)
        return
    for name in ("CUDA_TOOLKIT_PATH",):
        if value := os.environ.get(name, "").strip():
            yield Candidate(Path(value).expanduser(), name)
    yield Candidate(prefix.toolkit_root(), "private prefix")
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if value := os.environ.get(name, "").strip():
            yield Candidate(Path(value).expanduser(), name)
    for entry in dict.fromkeys(sys.path):
        root = Path(entry or ".") / "nvidia" / "cu13"
        if root.is_dir():
            yield Candidate(root, "pip packages")
    for root in sorted(LOCAL.glob("cuda-13.*"), reverse=True):
        yield Candidate(root, "/usr/local")
    nvcc = shutil.which("nvcc")
    if nvcc:
        yield Candidate(Path(os.path.realpath(nvcc)).parent.parent, "nvcc on PATH")
