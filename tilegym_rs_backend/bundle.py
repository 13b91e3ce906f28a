# SPDX-License-Identifier: MIT
"""Bundles: all that a GPU host without network, cargo or tileiras needs, in one folder.

A bundle is a set of wheels and a cache that is warm already: the built library under its source key and, with `aot`,
the cubins of the parity cases. The host unpacks the wheels and points TILEGYM_RS_CACHE_DIR at the cache; nothing else
differs from an ordinary installation.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from collections.abc import Iterable
from pathlib import Path

from . import artifacts
from . import build
from .errors import TilegymRsError
from .library import get_library
from .registration import native_ops
from .store import Store
from .target import Recorded
from .toolchain import dirs
from .toolchain.toolkit import TILEIRAS_VERSION
from .toolchain.toolkit import find_toolkit

RUNTIME = ("cffi", "filelock", "platformdirs", "ml_dtypes", "pyelftools")
PARITY = ("pytest", "pytest-xdist", "nvidia-ml-py", "tilegym", "cuda-tile", "cupti-python", "nvidia-cuda-cupti")
_PARITY_DEPENDENCIES = (
    "iniconfig",
    "pluggy",
    "packaging",
    "pygments",
    "execnet",
    "typing_extensions",
    "cuda-pathfinder",
)
_LIBRARIES = ("lib/libnvvm.so*", "nvvm/lib64/libnvvm.so*")

# pip takes the tags named and no others, so a wheel for an older glibc needs its own. 2.34 is what the library needs.
_PLATFORMS = (*(f"manylinux_2_{minor}_x86_64" for minor in range(34, 16, -1)), "manylinux2014_x86_64", "any")

Say = Callable[[str], None]


def make(
    out: Path,
    *,
    python: str = "3.12",
    aot: Iterable[str] = (),
    ops: Iterable[str] = (),
    parity: bool = True,
    ported: bool = False,
    tuned: bool = False,
    toolkit: bool = False,
    wheels: bool = True,
    say: Say = print,
) -> Path:
    """Write a bundle into the new or empty folder `out` and return it.

    Args:
        out: the folder.
        python: the host's Python, as ``"3.12"``.
        aot: architectures whose cubins of the parity cases go in.
        ops: limit `aot` to these ops; default all native ones.
        parity: add what `pytest --cutile-rs` needs (TileGym, cuda-tile, CUPTI's Python binding, pytest).
        ported: add the kernels translated from cuTile Python so far: their library, and what finds an entry in it. The
            ops that run ported then belong to `aot` too.
        tuned: add the tuner's choices and plans for `aot`, with the cubins they name, so that the host only measures.
        toolkit: add tileiras, ptxas and libnvvm, so that the host compiles what `aot` has not, on both sides.
        wheels: download the wheels; without them the host must have the packages.
        say: takes progress lines.

    Raises:
        TilegymRsError: the folder holds something, an argument names nothing, or a wheel could not be made or fetched.
    """
    aot, ops = tuple(aot), tuple(ops)
    _check(python, aot, ops)
    if out.exists() and any(out.iterdir()):
        raise TilegymRsError(f"{out} is not empty; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    cache = out / "cache"
    _copy_library(build.ensure_library(), cache, say)
    if ported:
        _copy_ported(cache, say)
    compiled = {arch: _copy_cubins(cache, case_launches(arch, ops, ported=ported), arch, say) for arch in aot}
    if tuned:
        for arch in aot:
            _copy_tuned(cache, arch, say)
    if wheels:
        _wheels(out / "wheels", python, parity, say)
    if toolkit:
        _pack_toolkit(out / "toolkit.tar.xz", say)
    library = get_library()
    manifest = {"build_id": library.build_id, "python": python, "aot": compiled, "tileiras": TILEIRAS_VERSION}
    (out / "bundle.json").write_text(json.dumps(manifest, indent=2) + "\n")
    script = out / "activate.sh"
    script.write_text(_ACTIVATE)
    say(f"bundle ready in {out}: on the host, `. {out.name}/activate.sh`")
    return out


def _check(python: str, aot: tuple[str, ...], ops: tuple[str, ...]) -> None:
    """Refuse what names nothing, before anything is written."""
    if not re.fullmatch(r"3\.\d+", python):
        raise TilegymRsError(f"python {python!r} is no version of Python; write it as 3.12")
    for arch in aot:
        if not re.fullmatch(r"sm_\d{2,3}", arch):
            raise TilegymRsError(f"aot {arch!r} is no architecture; write it as sm_90")
    unknown = sorted(set(ops) - set(native_ops()))
    if unknown:
        raise TilegymRsError(f"no native op {', '.join(unknown)}; there are: {', '.join(native_ops())}")


def _copy_library(path: Path, cache: Path, say: Say) -> None:
    folder = path.parent
    home = next((each for each in dirs.cache_dirs() if folder.is_relative_to(each)), None)
    if home is None:
        raise TilegymRsError(
            f"the library in use, {path}, is not one that was built into {dirs.cache_dir()}; unset TILEGYM_RS_LIBRARY"
        )
    shutil.copytree(folder, cache / folder.relative_to(home))
    say(f"library {path.name}: {path.stat().st_size / 2**20:.1f} MiB")


def _copy_ported(cache: Path, say: Say) -> None:
    """Copy the crate of translated kernels, its map and its library, which the host finds by the crate's texts."""
    from .port.cached import CachedCrate

    crate = CachedCrate()
    if not crate.root.is_dir():
        raise TilegymRsError("no kernel was translated here yet; run `tilegym-rs port --all` first")
    library = crate.library()
    shutil.copytree(crate.folder, cache / crate.folder.relative_to(dirs.cache_dir()))
    _copy_library(library.path, cache, say)


def _copy_cubins(cache: Path, launches: list[Recorded], arch: str, say: Say) -> int:
    store = Store(cache / dirs.store_dir().relative_to(dirs.cache_dir()))
    size = 0
    for number, launch in enumerate(launches, 1):
        size += artifacts.copy_cubin(launch.library, launch.token, arch, store)
        if number % 20 == 0 or number == len(launches):
            say(f"{arch}: {number} of {len(launches)} kernels, {size / 2**20:.1f} MiB")
    return len(launches)


def _copy_tuned(cache: Path, arch: str, say: Say) -> None:
    """Copy choices and plans that are good for the library as it is, and the machine code of their candidates."""
    from .tuning.choices import Choices
    from .tuning.here import choices
    from .tuning.here import is_current

    library = get_library()
    store = Store(cache / dirs.store_dir().relative_to(dirs.cache_dir()))
    kept = Choices(cache / dirs.tune_dir().name)
    texts: set[str] = set()
    count = 0
    for choice in choices().every():
        key = choice.key
        if key.arch == arch and is_current(key, library):
            kept.put(choice)
            count += 1
            texts.update(each.spec_text for each in choice.tried if each.spec_text and not each.why)
    if not count:
        raise TilegymRsError(
            f"nothing is tuned or planned for {arch}: run `tilegym-rs tune OP --offline --arch {arch}`"
        )
    size = sum(artifacts.copy_stored(library, text, arch, store) for text in texts)
    say(f"{arch}: {count} choices and plans, {len(texts)} candidates, {size / 2**20:.1f} MiB")


def case_launches(arch: str, ops: tuple[str, ...] = (), *, ported: bool = False) -> list[Recorded]:
    """Return the distinct launches that the parity cases of `ops` make on `arch`.

    Args:
        arch: the architecture.
        ops: default: all native ones, with `ported` all that have cases.
        ported: whether ops without native kernels count; a case of theirs that cannot be recorded is left out.
    """
    import dataclasses

    from pytest_cutile_rs.suites import suites

    from .launch import record

    found: dict[str, Recorded] = {}
    with record(arch) as recorded:
        for name, suite in suites().items():
            native = name in native_ops()
            if (ops and name not in ops) or not (native or ported):
                continue
            for case in suite.cases:
                if case.raises:
                    continue
                call = suite.inputs(dataclasses.replace(case, data="empty"), suite.recorded_on, 0)
                with contextlib.nullcontext() if native else contextlib.suppress(Exception):
                    suite.call(call, backend="cutile_rs")
    for launch in recorded:
        found.setdefault(launch.spec_text, launch)
    return list(found.values())


def _wheels(folder: Path, python: str, parity: bool, say: Say) -> None:
    folder.mkdir()
    source = Path(__file__).resolve().parent.parent
    if not (source / "pyproject.toml").is_file():
        raise TilegymRsError("a bundle's wheel is made from a checkout of tilegym-rs; this is an installed package")
    say("wheel of tilegym-rs")
    _pip("wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(source))
    names = [*RUNTIME, "pycparser", *((*PARITY, *_PARITY_DEPENDENCIES) if parity else ())]
    say(f"{len(names)} wheels for Python {python}")
    _pip(
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--python-version",
        python,
        *(argument for platform in _PLATFORMS for argument in ("--platform", platform)),
        "--dest",
        str(folder),
        *(f"{name}{_pin(name)}" for name in names),
    )


def _pin(name: str) -> str:
    """Return the version of this environment's package, so that both machines run the same."""
    from importlib import metadata

    prefix_pins = {"cupti-python": "==13.4.0", "nvidia-cuda-cupti": "==13.4.92"}
    if name in prefix_pins:
        return prefix_pins[name]
    try:
        return f"=={metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return ""


def _pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ))
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-8:])
        raise TilegymRsError(f"pip {arguments[0]} failed:\n{tail}\n  command: {' '.join(command)}")


def _pack_toolkit(path: Path, say: Say) -> None:
    """Pack tileiras and what it calls; it looks for its libraries relative to its own place, so paths are kept."""
    root = find_toolkit().root
    members = [root / "bin" / "tileiras", root / "bin" / "ptxas", root / "nvvm" / "libdevice"]
    for pattern in _LIBRARIES:
        members.extend(root.glob(pattern))
    say("packing tileiras, ptxas and libnvvm (about a minute)")
    with tarfile.open(path, "w:xz", preset=6) as archive:
        for member in members:
            if member.exists():
                archive.add(member, arcname=str(member.relative_to(root)))
    say(f"{path.name}: {path.stat().st_size / 2**20:.1f} MiB")


_ACTIVATE = """\
# Source this on the GPU host: unpacks the wheels once, beside this file, and points tilegym-rs at the warm cache.
bundle=$(cd "$(dirname "${BASH_SOURCE[0]:-$0}")" && pwd)
if [ -d "$bundle/wheels" ] && [ ! -d "$bundle/site" ]; then
    python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$bundle/site" "$bundle"/wheels/*.whl
fi
if [ -f "$bundle/toolkit.tar.xz" ] && [ ! -d "$bundle/toolkit" ]; then
    mkdir -p "$bundle/toolkit" && tar -xJf "$bundle/toolkit.tar.xz" -C "$bundle/toolkit"
fi
[ -d "$bundle/toolkit" ] && export TILEGYM_RS_TOOLKIT="$bundle/toolkit"
export PYTHONPATH="$bundle/site${PYTHONPATH:+:$PYTHONPATH}"
export TILEGYM_RS_CACHE_DIR="$bundle/cache"
unset CUDA_HOME CUDA_PATH CUDA_ROOT
"""
