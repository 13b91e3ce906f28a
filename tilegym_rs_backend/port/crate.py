# SPDX-License-Identifier: MIT
"""A crate of translated kernels: this package's own crate with generated files in place of its kernels.

The lazy builder treats it like any other crate, so one library holds the launcher and the translated kernels. The
sources lie in the cache; nothing generated is part of this package.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilegym_rs_backend.build import rust_root
from tilegym_rs_backend.toolchain.dirs import local_dir

_GENERATED = Path("src", "ops")
_LEFT_OUT = ("target", ".git")


def default_folder() -> Path:
    """Where the crate of translated kernels lies unless the caller says otherwise: beside cargo's target folder."""
    return local_dir() / "ported" / "crate"


def write_crate(sources: Mapping[str, str], folder: Path | None = None) -> Path:
    """Bring the crate in ``folder`` up to date and return it.

    Args:
        sources: module name -> Rust text; every other kernel file in the crate goes.
        folder: of the crate; cargo reuses more when it stays the same.

    A file whose text is unchanged is not touched, so cargo's incremental build sees what changed only.
    """
    target = folder or default_folder()
    root = rust_root()
    wanted: dict[Path, bytes] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and relative.parts[0] not in _LEFT_OUT and relative.parent != _GENERATED:
            wanted[relative] = path.read_bytes()
    for name, text in sources.items():
        wanted[_GENERATED / f"{name}.rs"] = text.encode()
    listed = "".join(f"pub mod {name};\n" for name in sorted(sources))
    wanted[_GENERATED / "mod.rs"] = f"//! Translated kernels.\n\n{listed}".encode()
    for path in sorted(target.rglob("*")) if target.is_dir() else ():
        relative = path.relative_to(target)
        if path.is_file() and relative.parts[0] not in _LEFT_OUT and relative not in wanted:
            path.unlink()
    for relative, content in wanted.items():
        _write(target / relative, content)
    return target


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
