# SPDX-License-Identifier: MIT
"""The Python side of a set-up: the checkout's .venv, the locked packages, and a torch that is already there reused."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..errors import ToolchainError
from . import pins
from .prefix import LOCKS
from .progress import Rate
from .progress import run
from .progress import say

STAMP = "tilegym-rs.json"
VENV_GIGABYTES = 7.5
REUSED_GIGABYTES = 1.0
# Installed even where the host's torch brought an older one: what else the locks hold needs the newer.
ALWAYS = frozenset({"filelock", "cuda-bindings", "setuptools"})
# What the locked torch alone needs; a torch that is there brings its own.
_TORCH_ONLY = re.compile(r"torch$|triton$|cuda-toolkit$|nvidia-(?!ml-py$)")

# Printed by an interpreter asked what it has: where torch is, and torch with all it requires, name to version.
_ASK = """
import importlib.metadata as m, importlib.util as u, json, re, sys
spec = u.find_spec("torch")
have, todo = {}, ["torch"] if spec else []
while todo:
    name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
    if name in have: continue
    try: dist = m.distribution(name)
    except m.PackageNotFoundError: continue
    have[name] = dist.version
    todo += [re.match(r"[A-Za-z0-9._-]+", r).group() for r in dist.requires or [] if "extra ==" not in r]
places = sorted({str(m.distribution(name).locate_file("")) for name in have})
print(json.dumps({"version": sys.version_info[:2], "torch": have, "places": places, "executable": sys.executable}))
"""


def ask(python: str) -> dict[str, object]:
    """Return what an interpreter has: its version, torch's dependency closure, and where that lies.

    Raises:
        ToolchainError: it cannot be run, or its version is not supported.
    """
    try:
        answer = subprocess.run([python, "-c", _ASK], capture_output=True, text=True, timeout=120, check=False)
    except OSError as error:
        raise ToolchainError(f"PYTHON={python} cannot be run: {error}") from error
    if answer.returncode != 0:
        raise ToolchainError(f"PYTHON={python} failed: {answer.stderr.strip()[-400:]}")
    facts: dict[str, object] = json.loads(answer.stdout)
    version = facts["version"]
    if not isinstance(version, list) or not [3, 10] <= version <= [3, 13]:
        raise ToolchainError(f"PYTHON={python} is {version}; Python 3.10 to 3.13 is supported")
    return facts


def stamp_of(python: str, checkout: Path, locks: Sequence[str]) -> str:
    """Return the hash that a finished environment is stamped with: locks, packaging, and the Python it stands on."""
    value = hashlib.sha256(os.path.realpath(python).encode())
    for path in [*(LOCKS / f"{name}.txt" for name in locks), checkout / "pyproject.toml"]:
        packaging, _, _ = path.read_text(encoding="utf-8").partition("[tool.ruff]")  # what follows installs nothing
        value.update(packaging.encode())
    return value.hexdigest()


def stamped(venv: Path, stamp: str) -> bool:
    """Whether ``venv`` was finished with this stamp."""
    try:
        return bool(json.loads((venv / STAMP).read_text(encoding="utf-8"))["stamp"] == stamp)
    except (OSError, ValueError, KeyError):
        return False


def write_stamp(venv: Path, stamp: str) -> None:
    """Mark ``venv`` as finished."""
    (venv / STAMP).write_text(json.dumps({"stamp": stamp}), encoding="utf-8")


def without_torch(locked: Sequence[pins.Pin], torch: dict[str, str]) -> list[pins.Pin]:
    """Return the pins that do not touch a torch that is there: neither it nor anything it requires."""
    return [pin for pin in locked if pin.name in ALWAYS or not (pin.name in torch or _TORCH_ONLY.match(pin.name))]


def create(python: str, venv: Path, *, pip: bool = True) -> Path:
    """Create ``venv`` on ``python`` and return its interpreter.

    Raises:
        ToolchainError: that Python cannot make one.
    """
    command = [python, "-m", "venv", *([] if pip else ["--without-pip"]), str(venv)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ToolchainError(
            f"{python} cannot create {venv}: {(answer.stdout + answer.stderr).strip()[-400:]}\n"
            "To fix: `apt-get install python3-venv`, or give another one: make parity PYTHON=python3.12"
        )
    return venv / "bin" / "python"


def share_torch(venv: Path, facts: dict[str, object]) -> None:
    """Put the folders of the torch that ``ask`` found last on the path of ``venv``, where it keeps its own place.

    A path file works for a torch in another virtual environment too, where --system-site-packages does not. It is
    written after the packages are installed: pip would take the host's for its own.
    """
    places = facts["places"]
    if isinstance(places, list) and places:
        site = next((venv / "lib").glob("python3.*/site-packages"))
        lines = [f"import site; site.addsitedir({place!r})\n" for place in places]
        (site / "zz_tilegym_rs_torch.pth").write_text("".join(lines), encoding="utf-8")


def install(python: Path, locked: Sequence[pins.Pin], rate: Rate) -> None:
    """Install pins with their hashes checked and nothing else pulled in."""
    total = sum(pin.megabytes for pin in locked)
    say(f"installing {len(locked)} packages for {python} ({rate.estimate(total)}, and as long again to unpack)")
    large = [f"{pin.name} {pin.megabytes:.0f} MB" for pin in locked if pin.megabytes >= 50]
    if large:
        say(f"of these the large ones: {', '.join(large)}")
    command = [str(python), "-m", "pip", "install", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--no-warn-script-location", "--no-compile"]
    command += [] if sys.stdout.isatty() else ["--quiet"]  # the heartbeat stands in for pip's bars
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "requirements.txt"
        pins.write_requirements(list(locked), wanted)
        run([*command, "--requirement", str(wanted)], "installing packages")


def install_checkout(python: Path, checkout: Path) -> None:
    """Install the checkout in development mode with the locked setuptools; nothing is downloaded."""
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable"]
    run([*command, str(checkout)], "installing tilegym-rs")


def absent(locks: Sequence[str]) -> list[pins.Pin]:
    """Return the pins of which this interpreter has no version at all, less what only a locked torch would need."""
    import importlib.metadata

    have = {pins.normalise(each.metadata["Name"] or "") for each in importlib.metadata.distributions()}
    missing = [pin for name in locks for pin in pins.read(name) if pin.name not in have]
    return without_torch(missing, {"torch": ""}) if "torch" in have else missing
