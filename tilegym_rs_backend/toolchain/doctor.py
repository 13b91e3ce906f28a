# SPDX-License-Identifier: MIT
"""Check every layer the backend stands on, cheapest first; each finding has its fix. No CUDA is initialised."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import TilegymRsError
from . import dirs
from . import install
from . import prefix
from .cargo import find_cargo
from .cargo import find_cc
from .cargo import find_libclang
from .cargo import probe_headers
from .env import tileiras_env
from .toolkit import SETUP
from .toolkit import TILEIRAS_VERSION
from .toolkit import survey

Status = Literal["ok", "note", "no-gpu", "fail"]
WORKS, CPU_ONLY, CANNOT = 0, 1, 2

REQUIRED = ("torch", "cffi", "filelock", "numpy", "ml_dtypes", "pyelftools")
OPTIONAL = ("tilegym", "cuda-tile", "pytest", "nvidia-ml-py")
TILEGYM_TESTED = "1.5.1"


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


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python_packages() -> Iterator[Finding]:
    for name in REQUIRED:
        version = _version(name)
        fix = "" if version else f"pip install {name}, or `tilegym-rs setup --parity`"
        yield Finding("python packages", "ok" if version else "fail", f"{name} {version or 'missing'}", fix)
    version = _version("filelock")
    if version and tuple(map(int, version.split(".")[:2])) < (3, 30):
        text = f"filelock {version} may fall back to locks that outlive their owner"
        yield Finding("python packages", "fail", text, "pip install 'filelock>=3.30'")
    for name in OPTIONAL:
        version = _version(name)
        text = f"{name} {version or 'missing (ported ops and the parity run need it)'}"
        fix = "" if version else "`tilegym-rs setup --parity`"
        if name == "tilegym" and version and version != TILEGYM_TESTED:
            text, fix = f"{text}, tested is {TILEGYM_TESTED}", f"pip install --no-deps tilegym=={TILEGYM_TESTED}"
        yield Finding("python packages", "ok" if version and not fix else "note", text, fix)
    if _version("tilegym"):
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
        yield Finding(
            "libclang", _library_needed(), "not found", "`tilegym-rs setup`, or `apt-get install libclang-dev`"
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "probe.c"
        source.write_text("#include <stddef.h>\nsize_t probe;\n", encoding="ascii")
        good = probe_headers(clang, source)
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
    known = _architectures()
    for line in answer.stdout.strip().splitlines():
        arch = "sm_" + line.split(",")[1].strip().replace(".", "")
        unknown = bool(known) and arch not in known
        fix = f"this tileiras assembles for {', '.join(sorted(known))}" if unknown else ""
        yield Finding("gpu", "no-gpu" if unknown else "ok", f"{line.strip()} ({arch})", fix)


def _architectures() -> set[str]:
    """Return the architectures tileiras names in its help, empty when it names none."""
    toolkit, _ = survey()
    if toolkit is None:
        return set()
    command = [str(toolkit.tileiras), "--help"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, env=tileiras_env(), check=False)
    return set(re.findall(r"\bsm_\d+[af]?\b", answer.stdout + answer.stderr))


def _cache() -> Iterator[Finding]:
    cache = dirs.cache_dir()
    mount = dirs.mount_of(cache)
    free = shutil.disk_usage(cache).free / 1e9
    mode = cache.stat().st_mode & 0o777
    text = f"{cache}, mode {mode:o}, {free:.1f} GB free, on {mount.kind}"
    low = free < 1.5
    yield Finding("cache", "note" if low else "ok", text, "a cold build takes 1.2 GB" if low else "")
    if mount.network:
        yield Finding(
            "cache", "note", f"on a network filesystem; locks and cargo's target folder are in {dirs.local_dir()}"
        )


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
