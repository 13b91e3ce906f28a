# SPDX-License-Identifier: MIT
"""The crate of translated kernels that launches use: it lies in the cache and grows as kernels are met.

Another translator, cuda-tile or Rust crate has a folder of its own, so nothing in one ever goes stale.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ..build import ensure_library
from ..build import rust_root
from ..build.key import source_digests
from ..library import Library
from ..library import opened
from ..toolchain.cargo import find_cargo
from ..toolchain.dirs import cache_dir
from ..toolchain.toolkit import find_toolkit
from .crate import build
from .crate import write_crate
from .installed import check_cuda_tile

_OPS = Path("src", "ops")
_lock = threading.RLock()
_libraries: dict[Path, Library] = {}


class CachedCrate:
    """Module texts in, a built library out.

    Attributes:
        folder: of this generation: the crate, its lock, and the map from launches to entries.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_dir() / "ported" / generation()
        self.root = self.folder / "crate"

    def has(self, module: str) -> bool:
        """Whether a module is in the crate."""
        return (self.root / _OPS / f"{module}.rs").is_file()

    def source(self, module: str) -> str:
        """Return a module's text."""
        return (self.root / _OPS / f"{module}.rs").read_text(encoding="utf-8")

    def add(self, modules: Mapping[str, str]) -> dict[str, str]:
        """Add modules (name -> text) and build; returns those that rustc or build.rs refused, with the reason.

        Raises:
            ToolchainError: cargo or the toolkit is missing.
            BuildError: the crate cannot be built for another reason.
        """
        find_cargo()
        find_toolkit(headers=True)  # a host that cannot build says so before the crate is touched
        with self._exclusive():
            there = (self.root / _OPS).glob("*.rs") if self.root.is_dir() else ()
            sources = {path.stem: path.read_text(encoding="utf-8") for path in there if path.stem != "mod"}
            try:
                _, failed = build({**sources, **modules}, self.root)
            except BaseException:
                # The library is found by the crate's texts: after a build that failed they must be what they were.
                write_crate(sources, self.root)
                raise
            return {name: text for name, text in failed.items() if name in modules}

    def library(self) -> Library:
        """Return the library of the modules that are there, built if need be.

        Raises:
            BuildError: it cannot be built.
        """
        path = ensure_library(self.root, reason="kernels translated from cuTile Python")
        with _lock:
            found = _libraries.get(path)
            if found is None:
                found = _libraries[path] = opened(path, self.root)
            return found

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One process at a time changes the crate."""
        import filelock

        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock, filelock.FileLock(str(self.folder / "lock")):
            yield


@lru_cache(maxsize=1)
def generation() -> str:
    """Name what the generated files depend on besides the Python kernels: translator, cuda-tile, Rust crate."""
    digest = hashlib.sha256(check_cuda_tile().encode())
    for path in sorted((Path(__file__).parent / "translate").rglob("*.py")):
        digest.update(path.read_bytes())
    for name, content in source_digests(rust_root()).items():
        if not name.startswith(f"{_OPS}/"):
            digest.update(f"{name}={content}\n".encode())
    return digest.hexdigest()[:16]
