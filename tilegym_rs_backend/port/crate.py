# SPDX-License-Identifier: MIT
"""A crate of translated kernels: this package's own crate with generated files in place of its kernels.

The lazy builder treats it like any other crate, so one library holds the launcher and the translated kernels. The
sources lie in the cache; nothing generated is part of this package.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.build import rust_root
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.library import Library
from tilegym_rs_backend.library import opened

_GENERATED = Path("src", "ops")
_LEFT_OUT = ("target", ".git")
_MOST_BUILDS = 8


def write_crate(sources: Mapping[str, str], folder: Path) -> Path:
    """Bring the crate in ``folder`` up to date and return it.

    Args:
        sources: module name -> Rust text; every other kernel file in the crate goes.
        folder: of the crate; cargo reuses more when it stays the same.

    A file whose text is unchanged is not touched, so cargo's incremental build sees what changed only.
    """
    root = rust_root()
    wanted: dict[Path, bytes] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.is_file() and relative.parts[0] not in _LEFT_OUT and relative.parent != _GENERATED:
            wanted[relative] = path.read_bytes()
    for name, text in sources.items():
        wanted[_GENERATED / f"{name}.rs"] = text.encode()
    listed = "".join(f"pub mod {name};\n" for name in sorted(sources))
    wanted[_GENERATED / "mod.rs"] = f"//! Translated kernels.\n#![allow(warnings)]\n\n{listed}".encode()
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        relative = path.relative_to(folder)
        if path.is_file() and relative.parts[0] not in _LEFT_OUT and relative not in wanted:
            path.unlink()
    for relative, content in wanted.items():
        _write(folder / relative, content)
    return folder


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def build(sources: dict[str, str], folder: Path) -> tuple[Library | None, dict[str, str]]:
    """Build a crate of kernels, leaving out files that rustc or build.rs refuses; returns those with the reason."""
    failed: dict[str, str] = {}
    for _ in range(_MOST_BUILDS):
        wanted = {name: text for name, text in sources.items() if name not in failed}
        if not wanted:
            return None, failed
        root = write_crate(wanted, folder)
        try:
            return opened(ensure_library(root, reason="translated kernels"), root), failed
        except BuildError as error:
            found = _blamed(error, wanted)
            if not found:
                raise
            failed.update(found)
    return None, failed


def _blamed(error: BuildError, sources: dict[str, str]) -> dict[str, str]:
    text = str(error)
    if error.log_path is not None and error.log_path.is_file():
        text = error.log_path.read_text(errors="replace")
    found: dict[str, str] = {}
    # A warning names files too, and is no reason to leave one out.
    for block in re.split(r"^(?=error|warning)", text, flags=re.MULTILINE):
        if not block.startswith("error") and "error:" not in block:
            continue
        for name in re.findall(r"src/ops/(\w+)\.rs", block):
            if name in sources:
                found.setdefault(name, block.strip()[:2000])
    return found
