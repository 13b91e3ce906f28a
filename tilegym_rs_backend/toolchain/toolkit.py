# SPDX-License-Identifier: MIT
"""Find a CUDA toolkit that fits: headers for the build, tileiras for assembling."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import ToolchainError
from .candidates import Candidate
from .candidates import candidates
from .env import tileiras_env

TILEIRAS_VERSION = "13.4.92"
"""The tileiras this package is tested with; another one is taken only through TILEGYM_RS_TOOLKIT."""

MIN_CUDA_VERSION = 13020
"""The first CUDA version with Tile IR, as cuda.h writes it."""

SETUP = "run `tilegym-rs setup` (it installs the tested one), or point TILEGYM_RS_TOOLKIT at a CUDA 13.4 toolkit"


@dataclass(frozen=True)
class Toolkit:
    """A CUDA toolkit that was checked.

    Attributes:
        root: its folder.
        tileiras: the assembler, by absolute path; it must stay where it is, it finds libnvvm from its own place.
        tileiras_version: such as ``13.4.92``.
        cuda_version: ``CUDA_VERSION`` of its cuda.h (13040 is 13.4), 0 when it has no headers.
        origin: what pointed there.
    """

    root: Path
    tileiras: Path
    tileiras_version: str
    cuda_version: int
    origin: str

    @property
    def tested(self) -> bool:
        """Whether its tileiras is the version this package is tested with."""
        return self.tileiras_version == TILEIRAS_VERSION

    @property
    def label(self) -> str:
        """The tileiras as reports name it: an untested one is marked."""
        return self.tileiras_version if self.tested else f"{self.tileiras_version} (not the tested {TILEIRAS_VERSION})"


def cuda_version(root: Path) -> int:
    """Return ``CUDA_VERSION`` of the cuda.h under ``root``, 0 when there is none."""
    try:
        text = (root / "include" / "cuda.h").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    match = re.search(r"^\s*#\s*define\s+CUDA_VERSION\s+(\d+)", text, re.MULTILINE)
    return int(match.group(1)) if match else 0


def tileiras_version(tileiras: Path) -> str:
    """Return the version ``tileiras --version`` reports, such as ``13.4.92``.

    Raises:
        ToolchainError: it cannot be run or says nothing of the kind.
    """
    status = tileiras.stat()
    return _tileiras_version(str(tileiras), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _tileiras_version(tileiras: str, _mtime_ns: int, _size: int) -> str:
    try:
        answer = subprocess.run(
            [tileiras, "--version"], capture_output=True, text=True, timeout=120, env=tileiras_env(), check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{tileiras} cannot be run: {error}") from error
    match = re.search(r"\bV(\d+\.\d+\.\d+)", answer.stdout)
    if match is None:
        said = (answer.stdout + answer.stderr).strip().splitlines()[:1]
        raise ToolchainError(f"{tileiras} --version gave no version (status {answer.returncode}: {said})")
    return match.group(1)


def architectures(tileiras: Path) -> tuple[str, ...]:
    """Return the architectures that ``tileiras`` names in its help (``sm_90``), in order; empty when it names none."""
    status = tileiras.stat()
    return _architectures(str(tileiras), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _architectures(tileiras: str, _mtime_ns: int, _size: int) -> tuple[str, ...]:
    try:
        answer = subprocess.run(
            [tileiras, "--help"], capture_output=True, text=True, timeout=120, env=tileiras_env(), check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ()
    found = set(re.findall(r"\bsm_(\d+)([af]?)\b", answer.stdout + answer.stderr))
    return tuple(f"sm_{number}{letter}" for number, letter in sorted(found, key=lambda each: (int(each[0]), each[1])))


def check_arch(arch: str, where: str) -> None:
    """Refuse an architecture that the tileiras in use does not know, before anything is built for it.

    Without a tileiras nothing is known, and nothing refused: a warm host has the machine code already.

    Raises:
        ToolchainError: naming ``where`` the architecture comes from and those that would do.
    """
    toolkit, _ = survey()
    known = architectures(toolkit.tileiras) if toolkit is not None else ()
    if toolkit is not None and known and arch not in known:
        raise ToolchainError(
            f"{where} is {arch}, and tileiras {toolkit.tileiras_version} assembles for {', '.join(known)} only; no "
            "kernel of this package can run there. Use tilegym.set_backend('cutile') or another GPU, or point "
            "TILEGYM_RS_TOOLKIT at a toolkit that knows it."
        )


def inspect(candidate: Candidate, *, headers: bool) -> Toolkit | str:
    """Check one candidate; return the toolkit, or the reason it is rejected."""
    root = candidate.root
    if not root.is_dir():
        return "no such directory"
    version = cuda_version(root)
    if headers:
        if version == 0:
            return "no include/cuda.h"
        if version < MIN_CUDA_VERSION:
            return f"CUDA {version // 1000}.{version % 1000 // 10} is older than 13.2"
        if not (root / "include" / "curand.h").is_file():
            return "no include/curand.h"
    tileiras = root / "bin" / "tileiras"
    if not tileiras.is_file():
        return "no bin/tileiras"
    if not os.access(tileiras, os.X_OK):
        return "bin/tileiras is not executable"
    try:
        assembler = tileiras_version(tileiras)
    except ToolchainError as error:
        return str(error)
    if assembler != TILEIRAS_VERSION and not candidate.any_version:
        return f"tileiras {assembler}, tested is {TILEIRAS_VERSION} (TILEGYM_RS_TOOLKIT={root} would force it)"
    return Toolkit(root.absolute(), tileiras.absolute(), assembler, version, candidate.origin)


def survey(*, headers: bool = False) -> tuple[Toolkit | None, list[tuple[Candidate, str]]]:
    """Return the toolkit that is used (``None``: none fits) and each rejected candidate with its reason."""
    rejected: list[tuple[Candidate, str]] = []
    for candidate in candidates():
        found = inspect(candidate, headers=headers)
        if isinstance(found, Toolkit):
            return found, rejected
        rejected.append((candidate, found))
    return None, rejected


def find_toolkit(*, headers: bool = False) -> Toolkit:
    """Return the CUDA toolkit to use.

    Order: TILEGYM_RS_TOOLKIT (and then no other), CUDA_TOOLKIT_PATH, the private prefix, CUDA_HOME, CUDA_PATH, pip
    packages, /usr/local/cuda-13.*, the one nvcc on PATH belongs to. ``headers`` also asks for cuda.h and curand.h,
    which a build needs and a launch does not.

    Raises:
        ToolchainError: none fits; the text lists each candidate with its reason.
    """
    found, rejected = survey(headers=headers)
    if found is not None:
        return found
    listing = "\n".join(f"  {candidate.origin}: {candidate.root}: {reason}" for candidate, reason in rejected)
    if rejected and rejected[0][0].only:
        raise ToolchainError(f"TILEGYM_RS_TOOLKIT is set but cannot be used:\n{listing}\nCorrect it or unset it.")
    raise ToolchainError(f"no CUDA toolkit fits; looked at:\n{listing}\nTo fix it, {SETUP}.")
