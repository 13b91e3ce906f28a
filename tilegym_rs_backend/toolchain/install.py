# SPDX-License-Identifier: MIT
"""Fill a private prefix from a lock: fetch each wheel, check its hash, unpack it, publish the folder by one rename."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from ..errors import ToolchainError
from . import pins
from .dirs import cache_dir
from .dirs import prefix_dir
from .prefix import STAMP
from .prefix import cupti_prefix
from .prefix import toolkit_prefix
from .progress import Rate
from .progress import duration
from .progress import run
from .progress import say

# Unpacked sizes in MB, of which the disk check takes the sum with the wheels'.
UNPACKED = {"toolkit": 760.0, "cupti": 95.0}
_DATA = re.compile(r"^[^/]+\.data/(purelib|platlib)/")
PLACES = {"toolkit": toolkit_prefix, "cupti": cupti_prefix}


def installed(name: str) -> bool:
    """Whether the prefix ``name`` (``toolkit`` or ``cupti``) of the current lock is complete."""
    return (PLACES[name]() / STAMP).is_file()


def missing_megabytes(name: str) -> float:
    """Return what installing ``name`` would take on disk at its peak, 0 when it is there."""
    if installed(name):
        return 0.0
    return UNPACKED[name] + sum(pin.megabytes for pin in pins.read(name))


def install(name: str, rate: Rate) -> Path:
    """Install the prefix ``name`` unless it is there; return its folder.

    Interrupted, it keeps the wheels it has and goes on with them next time. Two processes at once do no harm: each
    unpacks into a folder of its own, and the first rename wins.

    Raises:
        ToolchainError: a download failed, a hash is wrong, or the disk is full.
    """
    place = PLACES[name]()
    if installed(name):
        return place
    start = time.monotonic()
    wheels = [fetch(pin, rate) for pin in pins.read(name)]
    staging = prefix_dir() / f".staging-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        staging.mkdir(mode=0o700, parents=True)
        for wheel in wheels:
            say(f"unpacking {wheel.name}")
            unpack(wheel, staging)
        stamp = {"lock": name, "wheels": [wheel.name for wheel in wheels], "time": time.time()}
        (staging / STAMP).write_text(json.dumps(stamp, indent=1), encoding="utf-8")
        _rename(staging, place)
    except OSError as error:
        raise ToolchainError(
            f"{name} cannot be installed in {place}: {error}. Free some disk space, or set TILEGYM_RS_CACHE_DIR."
        ) from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    for wheel in wheels:
        with contextlib.suppress(OSError):
            wheel.unlink()
    say(f"{name} installed in {place} after {duration(time.monotonic() - start)}")
    return place


def _rename(staging: Path, place: Path) -> None:
    try:
        staging.rename(place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not (place / STAMP).is_file():  # somebody deleted files in it
            place.rename(place.with_name(f"{place.name}.bad-{time.time_ns()}"))
            staging.rename(place)


def download_dir() -> Path:
    """Return the folder that keeps fetched wheels until their prefix is complete."""
    path = cache_dir() / "downloads"
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def digest(path: Path) -> str:
    """Return a file's SHA-256."""
    value = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            value.update(block)
    return value.hexdigest()


def fetch(pin: pins.Pin, rate: Rate) -> Path:
    """Return the wheel of a pin, downloaded by pip from wherever pip is configured to, its hash checked.

    Raises:
        ToolchainError: it cannot be downloaded, or what came is not what the lock names.
    """
    for path in download_dir().glob(f"{pin.name.replace('-', '_')}-{pin.version}-*.whl"):
        if digest(path) in pin.hashes:
            say(f"{pin.name} {pin.version}: already downloaded")
            return path
        path.unlink()
    say(f"downloading {pin.name} {pin.version} ({rate.estimate(pin.megabytes)})")
    start = time.monotonic()
    with tempfile.TemporaryDirectory(dir=download_dir()) as folder:
        wanted = Path(folder) / "requirements.txt"
        pins.write_requirements([pin], wanted)
        command = [*pip(), "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
        run([*command, "--dest", folder, "--requirement", str(wanted)], f"downloading {pin.name}")
        found = next(Path(folder).glob("*.whl"), None)
        if found is None or digest(found) not in pin.hashes:
            raise ToolchainError(f"pip fetched no wheel of {pin.name} {pin.version} that the lock names")
        rate.add(found.stat().st_size / 1e6, time.monotonic() - start)
        return found.rename(download_dir() / found.name)


def pip() -> list[str]:
    """Return the command that runs this interpreter's pip.

    Raises:
        ToolchainError: it has none.
    """
    if importlib.util.find_spec("pip") is None:
        raise ToolchainError(f"{sys.executable} has no pip. To fix: `{sys.executable} -m ensurepip --upgrade`.")
    return [sys.executable, "-m", "pip"]


def unpack(wheel: Path, folder: Path) -> None:
    """Unpack a wheel as pip would place its modules; modes are kept, since the toolkit's programs are in it.

    Raises:
        ToolchainError: a member would land outside ``folder``.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            # libclang's wheel keeps its files under <name>.data/platlib
            member.filename = _DATA.sub("", member.filename)
            target = folder / member.filename
            if not target.resolve().is_relative_to(folder.resolve()):
                raise ToolchainError(f"{wheel.name} holds {member.filename}, which lies outside the prefix")
            archive.extract(member, folder)
            mode = member.external_attr >> 16
            if mode & 0o111 and not member.is_dir():
                target.chmod(0o755)
