# SPDX-License-Identifier: MIT
"""Which Python packages this distribution asks for, and whether those that are there fit."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

DISTRIBUTION = "tilegym-rs"
EXTRAS = ("ported", "parity")
"""Extras whose packages are worth a word when they are missing: ported ops and the parity run need them."""

_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)\s*(>=|==)\s*([\w.]+)\s*(?:;\s*extra\s*==\s*['\"]([\w-]+)['\"])?$")


@dataclass(frozen=True)
class Requirement:
    """One line of the distribution's metadata: ``torch>=2.9``, and the extra it belongs to (empty: always needed)."""

    name: str
    operator: str
    version: str
    extra: str

    def __str__(self) -> str:
        return f"{self.name}{self.operator}{self.version}"

    def fits(self, found: str) -> bool:
        """Whether an installed version does; a local part such as ``+cu128`` does not count."""
        if self.operator == "==":
            return found.partition("+")[0] == self.version
        return _numbers(found) >= _numbers(self.version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", re.split(r"[+]|\.?(?:a|b|rc|dev|post)\d", version)[0]))


def installed(name: str) -> str | None:
    """Return the installed version of a distribution, ``None`` without one."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def requirements() -> Iterator[Requirement]:
    """Yield what this distribution's metadata asks for, its ``EXTRAS`` included; in a bare checkout pyproject.toml's
    plain dependencies.
    """
    try:
        lines = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        project = Path(__file__).resolve().parents[2] / "pyproject.toml"
        text = project.read_text(encoding="utf-8") if project.is_file() else ""
        _, _, rest = text.partition("\ndependencies = [")
        lines = re.findall(r'"([^"]+)"', rest.partition("\n]")[0])
    for line in lines:
        match = _REQUIREMENT.match(line.strip())
        if match and (not match.group(4) or match.group(4) in EXTRAS):
            yield Requirement(match.group(1), match.group(2), match.group(3), match.group(4) or "")
