# SPDX-License-Identifier: MIT
"""Cargo, the C compiler that links for it, and the libclang that bindgen reads headers with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ToolchainError

if TYPE_CHECKING:
    from .toolkit import Toolkit

MIN_CARGO = (1, 89)
RUSTUP = "install Rust from https://rustup.rs, or `rustup update stable` where rustup is there"

# Parsing one line in a process of its own: a second libclang in this one could meet torch's LLVM. The line is given as
# an unsaved file, so that nothing is written anywhere.
_HEADER_PROBE = """
import sys
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_int, c_uint, c_ulong, c_void_p
class Unsaved(Structure):
    _fields_ = [("name", c_char_p), ("text", c_char_p), ("length", c_ulong)]
lib = CDLL(sys.argv[1])
lib.clang_createIndex.restype = c_void_p
parse = lib.clang_parseTranslationUnit
parse.restype = c_void_p
parse.argtypes = [c_void_p, c_char_p, POINTER(c_char_p), c_int, POINTER(Unsaved), c_uint, c_uint]
lib.clang_getNumDiagnostics.argtypes = [c_void_p]
flags = [flag.encode() for flag in sys.argv[2:]]
text = b"#include <stddef.h>\\nsize_t probe;\\n"
unsaved = Unsaved(b"probe.c", text, len(text))
index = lib.clang_createIndex(0, 0)
unit = parse(index, b"probe.c", (c_char_p * len(flags))(*flags), len(flags), byref(unsaved), 1, 0)
sys.exit(3 if not unit or lib.clang_getNumDiagnostics(unit) else 0)
"""


@dataclass(frozen=True)
class Cargo:
    """A usable cargo: its path, its version (major, minor) and the text of ``rustc -vV``."""

    path: Path
    version: tuple[int, int]
    rustc: str


def build_command(cargo: Path, crate: Path, *options: str) -> list[str]:
    """Return the command line that builds a crate's library; without the network where TILEGYM_RS_OFFLINE is set."""
    line = [str(cargo), "build", "--release", "--lib", "--locked", *options]
    line += ["--manifest-path", str(crate / "Cargo.toml")]
    if os.environ.get("TILEGYM_RS_OFFLINE", "") not in ("", "0"):
        line.append("--offline")
    return line


@dataclass(frozen=True)
class Libclang:
    """A libclang: the folder and file, and the arguments that give it the compiler's own headers."""

    folder: Path
    library: Path
    arguments: tuple[str, ...]


def _run(command: list[str], *, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)


def _which(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=os.path.expanduser("~/.cargo/bin"))


def find_cargo() -> Cargo:
    """Return cargo, 1.89 or newer, from PATH or ~/.cargo/bin.

    Raises:
        ToolchainError: missing, too old, or broken.
    """
    cargo, rustc = _which("cargo"), _which("rustc")
    if cargo is None or rustc is None:
        missing = "cargo" if cargo is None else "rustc"
        raise ToolchainError(
            f"{missing} is neither on PATH nor in ~/.cargo/bin; the kernels are compiled with it. To fix: {RUSTUP}."
        )
    status = os.stat(os.path.realpath(rustc))
    toolchain = os.environ.get("RUSTUP_TOOLCHAIN", "")
    return _probe_cargo(cargo, rustc, toolchain, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=16)
def _probe_cargo(cargo: str, rustc: str, _toolchain: str, _mtime_ns: int, _size: int) -> Cargo:
    try:
        answer = _run([cargo, "--version"])
        compiler = _run([rustc, "-vV"])
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolchainError(f"{cargo} cannot be run: {error}. To fix: {RUSTUP}.") from error
    match = re.search(r"cargo (\d+)\.(\d+)", answer.stdout)
    if match is None or compiler.returncode != 0:
        said = (answer.stderr or compiler.stderr).strip()[:400]
        raise ToolchainError(f"{cargo} --version or {rustc} -vV failed: {said}\nTo fix: {RUSTUP}.")
    version = (int(match.group(1)), int(match.group(2)))
    if version < MIN_CARGO:
        raise ToolchainError(
            f"{cargo} is {version[0]}.{version[1]}, the crate needs {MIN_CARGO[0]}.{MIN_CARGO[1]} or newer. "
            f"To fix: {RUSTUP}."
        )
    return Cargo(Path(cargo), version, compiler.stdout.strip())


def find_cc() -> Path:
    """Return the C compiler rustc links with: ``cc`` on PATH, which is the name rustc calls.

    Raises:
        ToolchainError: there is none.
    """
    linker = os.environ.get("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER", "").strip() or "cc"
    path = shutil.which(linker)
    if path is None:
        raise ToolchainError(
            f"no C compiler: `{linker}` is not on PATH, and rustc links with it. "
            "To fix: `apt-get install gcc libc6-dev`, `dnf install gcc`, or a compiler module of your cluster."
        )
    return Path(path)


def libclang_folders(toolkit: Toolkit | None) -> list[Path]:
    """Return where libclang is looked for, in order; LIBCLANG_PATH is never overridden."""
    from . import prefix

    folders: list[Path] = []
    explicit = os.environ.get("LIBCLANG_PATH", "").strip()
    if explicit:
        path = Path(explicit).expanduser()
        folders.append(path.parent if path.is_file() else path)
        return folders
    if toolkit is not None:  # .../nvidia/cu13 of a prefix has .../clang/native beside it
        folders.append(toolkit.root.parent.parent / "clang" / "native")
    folders.append(prefix.libclang_folder())
    folders += [Path(entry or ".") / "clang" / "native" for entry in dict.fromkeys(sys.path)]
    folders += sorted(Path("/usr/lib").glob("llvm-*/lib"), reverse=True)
    folders += [Path("/usr/lib/x86_64-linux-gnu"), Path("/usr/lib64"), Path("/usr/local/lib"), Path("/usr/lib")]
    return folders


def find_libclang(toolkit: Toolkit | None = None) -> Libclang | None:
    """Return libclang: LIBCLANG_PATH, else the one beside the toolkit or in the private prefix, else the system's."""
    for folder in libclang_folders(toolkit):
        for pattern in ("libclang.so", "libclang.so.*", "libclang-*.so*"):
            for library in sorted(folder.glob(pattern)):
                if library.name.startswith("libclang-cpp"):  # the C++ interface, which bindgen cannot use
                    continue
                return Libclang(folder, library, _builtin_headers(folder))
    return None


def _builtin_headers(folder: Path) -> tuple[str, ...]:
    # A packaged clang brings stddef.h beside the library; the wheel does not, and the C compiler's copy serves.
    if any(folder.glob("clang/*/include/stddef.h")):
        return ()
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return ()
    found = _headers_of(compiler)
    return (f"-I{found}",) if found else ()


@lru_cache(maxsize=8)
def _headers_of(compiler: str) -> str:
    try:
        path = _run([compiler, "-print-file-name=include"]).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
    return path if os.path.isfile(os.path.join(path, "stddef.h")) else ""


def probe_headers(clang: Libclang) -> bool:
    """Whether ``clang`` parses ``#include <stddef.h>`` without a diagnostic (bindgen's arguments included)."""
    extra = os.environ.get("BINDGEN_EXTRA_CLANG_ARGS", "").split() or list(clang.arguments)
    command = [sys.executable, "-c", _HEADER_PROBE, str(clang.library), *extra]
    try:
        return _run(command, timeout=120).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False
