# SPDX-License-Identifier: MIT
"""Read the lock files: requirement lines with hashes, each under a comment with its size."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from .prefix import LOCKS


@dataclass(frozen=True)
class Pin:
    """One package of a lock.

    Attributes:
        name: normalised (lower case, dashes).
        version: the exact version.
        hashes: SHA-256 of each file that may be installed, one per Python or for all.
        megabytes: the largest of those files.
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    megabytes: float

    @property
    def requirement(self) -> str:
        """The line pip installs it from with ``--require-hashes``."""
        return " ".join([f"{self.name}=={self.version}", *(f"--hash=sha256:{each}" for each in self.hashes)])


_SIZE = re.compile(r"^# ([\d.]+) MB$")
_PIN = re.compile(r"^([a-z0-9-]+)==([^\s;]+)(?: ; (.+))?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_MARKER = re.compile(r'python_version == "([\d.]+)"')


def normalise(name: str) -> str:
    """Return a distribution's name as the locks write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read(name: str, python: tuple[int, int] = sys.version_info[:2]) -> list[Pin]:
    """Return the pins of a lock file (``environment``, ``dev``, ``toolkit``, ``cupti``) for one Python version.

    Raises:
        ValueError: a line that this format does not have.
    """
    return parse((LOCKS / f"{name}.txt").read_text(encoding="utf-8"), python)


def parse(text: str, python: tuple[int, int]) -> list[Pin]:
    """Return the pins of a lock's text that are for ``python``."""
    pins: list[Pin] = []
    megabytes = 0.0
    for line in text.replace("\\\n", " ").splitlines():
        size = _SIZE.match(line)
        if size:
            megabytes = float(size.group(1))
        if not line.strip() or line.startswith("#"):
            continue
        hashes = tuple(_HASH.findall(line))
        match = _PIN.match(_HASH.sub("", line).strip())
        if match is None or not hashes:
            raise ValueError(f"not a line of a lock file: {line!r}")
        pythons = _MARKER.findall(match.group(3) or "")
        if not pythons or f"{python[0]}.{python[1]}" in pythons:
            pins.append(Pin(match.group(1), match.group(2), hashes, megabytes))
        megabytes = 0.0
    return pins


def write_requirements(pins: list[Pin], path: Path) -> None:
    """Write the pins as a requirements file for ``pip install --require-hashes``."""
    path.write_text("".join(f"{pin.requirement}\n" for pin in pins), encoding="utf-8")
