# SPDX-License-Identifier: MIT
"""Check every layer the backend stands on, cheapest first; each finding has its fix. No CUDA is initialised."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import TilegymRsError
from . import dirs
from . import install
from . import packages
from . import prefix
from .cargo import find_cargo
from .cargo import find_cc
from .cargo import find_libclang
from .cargo import libclang_folders
from .cargo import probe_headers
from .mounts import mount_of
from .toolkit import SETUP
from .toolkit import TILEIRAS_VERSION
from .toolkit import architectures
from .toolkit import survey

Status = Literal["ok", "note", "no-gpu", "fail"]
WORKS, CPU_ONLY, CANNOT = 0, 1, 2


@dataclass(frozen=True)
class Finding:
    """One result: the layer, whether it holds, what was found, and what to do if it does not.

    ``note`` changes nothing about whether the backend works, ``no-gpu`` leaves the CPU, ``fail`` leaves nothing.
    """

    layer: str
    status: Status
    text: str
    fix: str = ""


def examine() -> list[Finding]:
    """Return all findings, in the order of the layers."""
    findings: list[Finding] = []
    for layer in LAYERS:
        try:
            findings += layer()
        except (OSError, subprocess.SubprocessError, TilegymRsError) as error:
            name = layer.__name__.removeprefix("_").replace("_", " ")
            findings.append(Finding(name, "fail", str(error)))
    return findings


def verdict(findings: list[Finding]) -> int:
    """Return 0 when the backend can work, 1 when it can on a CPU alone, 2 when it cannot."""
    found = {finding.status for finding in findings}
    return CANNOT if "fail" in found else CPU_ONLY if "no-gpu" in found else WORKS


def _platform() -> Iterator[Finding]:
    libc, version = platform.libc_ver()
    text = f"{sys.platform} {platform.machine()}, {libc or 'no glibc'} {version}, Python {platform.python_version()}"
    fits = sys.platform == "linux" and platform.machine() == "x86_64" and libc == "glibc"
    fits = fits and (3, 10) <= sys.version_info[:2] <= (3, 13)
    yield Finding(
        "platform", "ok" if fits else "fail", text, "" if fits else "Linux x86-64, glibc, Python 3.10 to 3.13"
    )


def _python_packages() -> Iterator[Finding]:
    for wanted in packages.requirements():
        version = packages.installed(wanted.name)
        if version is not None and wanted.fits(version):
            yield Finding("python packages", "ok", f"{wanted.name} {version}")
            continue
        text = f"{wanted.name} is missing" if version is None else f"{wanted.name} {version}, needed is {wanted}"
        if not wanted.extra:
            yield Finding("python packages", "fail", text, f"pip install '{wanted}'")
        else:
            text = f"{text} (ported ops and the parity run need it)"
            yield Finding("python packages", "note", text, f"`tilegym-rs setup --parity`, or pip install '{wanted}'")
    if packages.installed("tilegym"):
        text = "backend `cutile_rs` is this package; `cutile-rs` (hyphen) is TileGym's own"
        yield Finding("python packages", "ok", text)


def _library_needed() -> Status:
    """What a missing build tool means: nothing where a library for the sources is at hand."""
    from ..build import key
    from ..build import publish
    from ..build.ensure import shipped

    if os.environ.get("TILEGYM_RS_LIBRARY"):
        return "note"
    source = key.source_key()
    return "note" if shipped(source) or publish.by_source(source) else "fail"


def _cargo() -> Iterator[Finding]:
    try:
        cargo = find_cargo()
        yield Finding(
            "cargo", "ok", f"{cargo.path} {cargo.version[0]}.{cargo.version[1]}, {cargo.rustc.splitlines()[0]}"
        )
    except TilegymRsError as error:
        yield Finding("cargo", _library_needed(), *_split(error))


def _cc() -> Iterator[Finding]:
    try:
        yield Finding("cc", "ok", str(find_cc()))
    except TilegymRsError as error:
        yield Finding("cc", _library_needed(), *_split(error))


def _split(error: TilegymRsError) -> tuple[str, str]:
    text, _, fix = str(error).partition("To fix: ")
    return text.strip(), fix


def _libclang() -> Iterator[Finding]:
    toolkit, _ = survey(headers=True)
    clang = find_libclang(toolkit)
    if clang is None:
        text = f"not found in {', '.join(str(folder) for folder in libclang_folders(toolkit))}"
        yield Finding("libclang", _library_needed(), text, "`tilegym-rs setup`, or `apt-get install libclang-dev`")
        return
    good = probe_headers(clang)
    fix = "" if good else 'install clang, or BINDGEN_EXTRA_CLANG_ARGS="-I$(gcc -print-file-name=include)"'
    text = str(clang.library) if good else f"{clang.library} cannot compile `#include <stddef.h>`"
    yield Finding("libclang", "ok" if good else _library_needed(), text, fix)


def _toolkit() -> Iterator[Finding]:
    toolkit, rejected = survey(headers=True)
    for candidate, reason in rejected:
        yield Finding("toolkit", "note", f"{candidate.origin}: {candidate.root}: {reason}")
    if toolkit is None:
        yield from _incomplete_toolkit()
        return
    text = f"{toolkit.root} ({toolkit.origin}), tileiras {toolkit.tileiras_version}"
    tested = toolkit.tested
    fix = "" if tested else f"tested is {TILEIRAS_VERSION}; every report says which one ran"
    yield Finding("toolkit", "ok" if tested else "note", text, fix)
    cupti = install.installed("cupti") or importlib.util.find_spec("cupti") is not None
    text = f"CUPTI: {prefix.cupti_prefix() if cupti else 'not installed (device time needs it)'}"
    yield Finding("toolkit", "ok" if cupti else "note", text, "" if cupti else "`tilegym-rs setup --parity`")


def _incomplete_toolkit() -> Iterator[Finding]:
    """Without headers nothing is built, without tileiras nothing new is assembled; a warm host needs neither."""
    status = _library_needed()
    assembler, _ = survey()
    if assembler is not None:
        text = f"{assembler.tileiras}, tileiras {assembler.tileiras_version}; no headers, so no library is built here"
    elif status == "note":
        text = "no CUDA toolkit fits: only kernels that are in the cubin store run here"
    else:
        text = "no CUDA toolkit fits"
    yield Finding("toolkit", status, text, SETUP)


def _gpu() -> Iterator[Finding]:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        yield Finding("driver", "no-gpu", "no libcuda.so.1", "install NVIDIA's driver; without it the CPU lane works")
        return
    version = ctypes.c_int()
    try:
        driver.cuDriverGetVersion(ctypes.byref(version))
    except AttributeError:
        yield Finding(
            "driver", "no-gpu", "libcuda.so.1 is no CUDA driver (cuDriverGetVersion is missing)", "reinstall it"
        )
        return
    text = f"supports CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    fits = version.value >= 13000
    yield Finding(
        "driver", "ok" if fits else "no-gpu", text, "" if fits else "install a driver for CUDA 13 (580 or newer)"
    )
    # nvidia-smi, because asking the driver itself would initialise CUDA in this process
    smi = shutil.which("nvidia-smi")
    query = [smi or "nvidia-smi", "--query-gpu=name,compute_cap,memory.total", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=60, check=False) if smi else None
    if answer is None or answer.returncode != 0:
        yield Finding("gpu", "no-gpu", "nvidia-smi sees no GPU", "pass the device to this container or job")
        return
    toolkit, _ = survey()
    known = architectures(toolkit.tileiras) if toolkit else ()
    for line in answer.stdout.strip().splitlines():
        arch = "sm_" + line.split(",")[1].strip().replace(".", "")
        unknown = bool(known) and arch not in known
        fix = f"this tileiras assembles for {', '.join(known)}" if unknown else ""
        yield Finding("gpu", "no-gpu" if unknown else "ok", f"{line.strip()} ({arch})", fix)


def _cache() -> Iterator[Finding]:
    cache = dirs.cache_dir()
    yield _directory(cache, "written to", "a cold build takes 1.2 GB")
    for path in dirs.read_only_dirs():
        yield _directory(path, "only read", "")
    local = dirs.local_dir()
    if local != cache:
        yield Finding(
            "cache", "note", f"{cache} is on a network filesystem, so locks and cargo's target folder are local"
        )
        yield _directory(local, "written to", "a cold build takes 1.2 GB")


def _directory(path: Path, use: str, low: str) -> Finding:
    mount = mount_of(path)
    status = path.stat()
    free = shutil.disk_usage(path).free / 1e9
    text = f"{path}, {use}, owner {status.st_uid}, mode {status.st_mode & 0o777:o}, {free:.1f} GB free, on {mount.kind}"
    little = bool(low) and free < 1.5
    return Finding("cache", "note" if little else "ok", text, low if little else "")


LAYERS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _platform,
    _python_packages,
    _cargo,
    _cc,
    _libclang,
    _toolkit,
    _gpu,
    _cache,
)
