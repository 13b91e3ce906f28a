# SPDX-License-Identifier: MIT
"""The two keys of a library: what its sources are, and what built it.

The source key needs nothing but the files, so it can pick a library that was built elsewhere; the build key adds the
compiler and decides whether to rebuild. tileiras is in neither: it acts at run time and is part of a cubin's key.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..contract import ABI_VERSION as ABI
from ..errors import BuildError
from ..toolchain.cargo import Cargo
from ..toolchain.cargo import find_cargo
from ..toolchain.toolkit import Toolkit
from . import manifest

PROFILE = "release"
TARGET = "x86_64-unknown-linux-gnu"

# A file changed this shortly before it was hashed may change again without its time stamps moving.
_RACY_NS = 20_000_000

_memo: dict[str, tuple[tuple[int, ...], int, str]] = {}


@dataclass(frozen=True)
class Key:
    """What a library is named by.

    Attributes:
        digest: SHA-256 over everything below, 64 hex digits; its first 16 name the published folder.
        source: the source key, 64 hex digits.
        components: what the digest covers besides the files, name to value.
        files: relative path to SHA-256.
    """

    digest: str
    source: str
    components: dict[str, str]
    files: dict[str, str]

    @property
    def short(self) -> str:
        """The 16 digits used in paths and as the library's build id."""
        return self.digest[:16]


@lru_cache(maxsize=1)
def rust_root() -> Path:
    """Return the crate's folder: the checkout's ``rust/``, or ``_rust/`` inside an installed package.

    Raises:
        BuildError: neither is there.
    """
    package = Path(__file__).resolve().parent.parent
    for root in (package / "_rust", package.parent / "rust"):
        if (root / "Cargo.toml").is_file():
            return root
    raise BuildError(
        f"the crate's sources are neither in {package.parent / 'rust'} nor in {package / '_rust'}; this installation "
        "was made without them and carries no library for them either. Reinstall tilegym-rs from a complete wheel, or "
        "set TILEGYM_RS_LIBRARY to a built libcutile_kernels.so",
        stage="preflight",
    )


def editable(root: Path) -> bool:
    """Whether ``root`` is a checkout that people edit (an installed ``_rust/`` is not)."""
    return root.name != "_rust"


def source_files(root: Path) -> list[str]:
    """Return the crate's source files, relative to ``root``, sorted.

    Raises:
        BuildError: one without which nothing can be built is missing.
    """
    try:
        return manifest.source_files(root)
    except FileNotFoundError as error:
        raise BuildError(
            f"{error} is missing; restore it (`git status` shows deleted files)", stage="preflight"
        ) from None


def stat_signature(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written: size, times, inode. The change time cannot be set back by tools."""
    status = path.stat()
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, from memory when the file cannot have changed since."""
    name = str(path)
    signature = stat_signature(path)
    known = _memo.get(name)
    if known is not None and known[0] == signature and signature[2] + _RACY_NS < known[1]:
        return known[2]
    now = time.time_ns()
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    _memo[name] = (signature, now, digest)
    return digest


def source_digests(root: Path) -> dict[str, str]:
    """Return relative path to SHA-256 for each source file."""
    return {name: file_digest(root / name) for name in source_files(root)}


def source_key(root: Path | None = None, *, features: Sequence[str] = ()) -> str:
    """Return the source key: SHA-256 over the crate's files and the features, the same on every machine."""
    return _source_key(source_digests(root or rust_root()), features)


def _source_key(files: dict[str, str], features: Sequence[str]) -> str:
    return _digest({"files": files, "features": sorted(features), "abi": ABI})


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def build_key(
    root: Path,
    *,
    toolkit: Toolkit | None,
    cargo: Cargo | None = None,
    features: Sequence[str] = (),
) -> Key:
    """Return the build key of the crate in ``root`` with this compiler, profile, toolkit and flags.

    Raises:
        ToolchainError: there is no usable cargo.
        BuildError: a source file is missing.
    """
    from .. import __version__

    files = source_digests(root)
    source = _source_key(files, features)
    components = {
        "abi": str(ABI),
        "cuda": str(toolkit.cuda_version) if toolkit is not None else "none",
        "features": ",".join(sorted(features)),
        "package": __version__,
        "profile": PROFILE,
        "rustc": (cargo or find_cargo()).rustc,
        "rustflags": os.environ.get("CARGO_ENCODED_RUSTFLAGS", os.environ.get("RUSTFLAGS", "")),
        "target": TARGET,
    }
    return Key(_digest({"source": source, **components}), source, components, files)
