# SPDX-License-Identifier: MIT
"""``tilegym-rs setup``: what is missing, checked before anything large is fetched; a second run does nothing."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import ToolchainError
from . import ahead
from . import environment
from . import install
from . import pins
from .cargo import find_cargo
from .cargo import find_cc
from .dirs import cache_dir
from .dirs import target_dir
from .progress import Rate
from .progress import say

TARGET_GIGABYTES = 1.0


def prefixes(parity: bool) -> tuple[str, ...]:
    """Return the prefixes a set-up needs: CUPTI is for measuring alone."""
    return ("toolkit", "cupti") if parity else ("toolkit",)


def check_host() -> None:
    """Check what no download can bring: the platform, cargo and cc.

    Raises:
        ToolchainError: all that is missing, each with its fix.
    """
    problems: list[str] = []
    if sys.platform != "linux" or platform.machine() != "x86_64" or not platform.libc_ver()[0].startswith("glibc"):
        problems.append(f"this is {sys.platform} {platform.machine()}; Linux x86-64 with glibc is supported")
    for find in (find_cargo, find_cc):
        try:
            find()
        except ToolchainError as error:
            problems.append(str(error))
    if problems:
        raise ToolchainError("nothing was downloaded, because first:\n" + "\n".join(f"- {each}" for each in problems))


def check_space(needs: Sequence[tuple[Path, float]]) -> None:
    """Check that each filesystem has the gigabytes the paths on it need together.

    Raises:
        ToolchainError: one has not.
    """
    sums: dict[int, tuple[Path, float]] = {}
    for path, gigabytes in needs:
        while not path.exists():
            path = path.parent
        device = path.stat().st_dev
        sums[device] = (path, sums.get(device, (path, 0.0))[1] + gigabytes)
    for path, gigabytes in sums.values():
        free = shutil.disk_usage(path).free / 1e9
        if free < gigabytes:
            raise ToolchainError(
                f"nothing was downloaded: {path} has {free:.1f} GB free, {gigabytes:.1f} GB are needed. "
                "Free some, or set TILEGYM_RS_CACHE_DIR to a larger disk."
            )


def _space(parity: bool) -> list[tuple[Path, float]]:
    needs = [(cache_dir(), install.missing_megabytes(name) / 1000) for name in prefixes(parity)]
    if not ahead.has_crates():
        needs.append((target_dir(), TARGET_GIGABYTES))
    return needs


def setup(parity: bool) -> None:
    """Install the private prefix, and into this Python the locked packages it lacks.

    Raises:
        ToolchainError: something cannot be had; the text says what to do.
    """
    missing = environment.absent(("environment",)) if parity else []
    if not missing and all(install.installed(name) for name in prefixes(parity)):
        say("everything is installed")
        return
    check_host()
    check_space([*_space(parity), (Path(sys.prefix), 2.5 * sum(pin.megabytes for pin in missing) / 1000)])
    rate = Rate()
    if missing:
        environment.install(Path(sys.executable), missing, rate)
    for name in prefixes(parity):
        install.install(name, rate)


def bootstrap(checkout: Path, python: str, *, parity: bool) -> None:
    """Make a checkout ready from a bare Python: ``.venv``, the locked packages, the prefix, the package itself."""
    locks = ("environment", "dev")
    venv = checkout / ".venv"
    stamp = environment.stamp_of(shutil.which(python) or python, checkout, locks)
    if environment.stamped(venv, stamp) and all(install.installed(name) for name in prefixes(parity)):
        return
    check_host()
    facts = environment.ask(python)
    torch = facts["torch"]
    have = torch if isinstance(torch, dict) else {}
    version = facts["version"]
    locked = [pin for name in locks for pin in pins.read(name, _pair(version))]
    if have:
        say(f"using torch {have.get('torch')} of {facts['executable']}; it is not changed")
        locked = environment.without_torch(locked, have)
    finished = environment.stamped(venv, stamp)
    gigabytes = environment.REUSED_GIGABYTES if have else environment.VENV_GIGABYTES
    check_space([*_space(parity), (venv, 0.0 if finished else gigabytes)])
    rate = Rate()
    interpreter = venv / "bin" / "python"
    if not finished:
        with ahead.compiling(checkout / "rust", rate):
            interpreter = environment.create(python, venv)
            environment.install(interpreter, locked, rate)
            environment.install_checkout(interpreter, checkout)
            environment.share_torch(venv, facts)
            environment.write_stamp(venv, stamp)
    # cupti-python is compiled for one Python version: the new environment's, not necessarily this process's.
    command = [str(interpreter), "-m", "tilegym_rs_backend.toolchain.setup", "--prefixes"]
    os.execv(interpreter, [*command, *(["--parity"] if parity else [])])


def _pair(version: object) -> tuple[int, int]:
    assert isinstance(version, list)
    return int(version[0]), int(version[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the bootstrap from a bare Python: ``python -m tilegym_rs_backend.toolchain.setup --checkout DIR``."""
    parser = argparse.ArgumentParser(prog="python -m tilegym_rs_backend.toolchain.setup", description=main.__doc__)
    parser.add_argument("--checkout", type=Path, metavar="DIR", help="make DIR/.venv ready")
    parser.add_argument(
        "--python", default=sys.executable, help="the Python to stand on; its torch is used if it has one"
    )
    parser.add_argument("--parity", action="store_true", help="with what `pytest --cutile-rs` needs")
    parser.add_argument("--prefixes", action="store_true", help="only the private prefix, for this Python")
    options = parser.parse_args(arguments)
    try:
        if options.checkout is not None:
            bootstrap(options.checkout.resolve(), options.python, parity=options.parity)
        elif options.prefixes:
            rate = Rate()
            for name in prefixes(options.parity):
                install.install(name, rate)
        else:
            setup(options.parity)
    except ToolchainError as error:
        print(f"tilegym-rs: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("tilegym-rs: interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
