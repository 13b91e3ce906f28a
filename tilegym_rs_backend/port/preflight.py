# SPDX-License-Identifier: MIT
"""The first stage: whether this machine has what porting needs, in the versions that were tested."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import TilegymRsError
from ..errors import ToolchainError
from ..target import SM_COUNTS
from ..toolchain import packages
from ..toolchain.cargo import find_cargo
from ..toolchain.cargo import find_cc
from ..toolchain.toolkit import TILEIRAS_VERSION
from ..toolchain.toolkit import find_toolkit
from .installed import check_cuda_tile
from .journal import FAIL
from .journal import PASS
from .journal import Verdict


def preflight(arch: str) -> Verdict:
    """Check versions: cuda-tile, tilegym, the toolkit with its tileiras, cargo, a C compiler; and the architecture.

    Everything that is wrong is named at once, each with its way out.
    """
    found: dict[str, str] = {}
    wrong: list[str] = []
    for name, ask in _QUESTIONS.items():
        try:
            found[name] = ask()
        except TilegymRsError as error:
            wrong.append(f"{name}: {error}")
    if arch not in SM_COUNTS:
        wrong.append(f"arch: {arch} is not known; it is one of {', '.join(SM_COUNTS)}")
    if wrong:
        return Verdict("preflight", FAIL, "; ".join(wrong), found)
    return Verdict("preflight", PASS, ", ".join(f"{name} {version}" for name, version in found.items()), found)


def _tilegym() -> str:
    version = packages.installed("tilegym")
    if version is None:
        raise ToolchainError("not installed; install it with: pip install 'tilegym-rs[ported]'")
    wanted = next((each for each in packages.requirements() if each.name == "tilegym"), None)
    if wanted is not None and not wanted.fits(version):
        raise ToolchainError(f"{version} is installed, its wrappers were tested with {wanted}: pip install '{wanted}'")
    return version


def _tileiras() -> str:
    toolkit = find_toolkit(headers=True)
    if not toolkit.tested:
        raise ToolchainError(
            f"{toolkit.tileiras} is {toolkit.tileiras_version}; machine code was compared with {TILEIRAS_VERSION}. "
            "Unset TILEGYM_RS_TOOLKIT, or run `tilegym-rs setup`"
        )
    return toolkit.tileiras_version


def _cargo() -> str:
    return ".".join(map(str, find_cargo().version))


_QUESTIONS: dict[str, Callable[[], str]] = {
    "cuda-tile": check_cuda_tile,
    "tilegym": _tilegym,
    "tileiras": _tileiras,
    "cargo": _cargo,
    "cc": lambda: str(find_cc()),
}
