# SPDX-License-Identifier: MIT
"""The crate of translated kernels: a copy of the Rust crate in the cache whose op files are generated.

It grows as kernels are met, and is built by the same lazy builder as the crate it is a copy of. Another translator,
cuda-tile or Rust crate has a folder of its own, so nothing in one ever goes stale.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from ..build import ensure_library
from ..build import rust_root
from ..build.key import source_digests
from ..errors import BuildError
from ..errors import CompileError
from ..library import Library
from ..toolchain.dirs import cache_dir
from .installed import check_cuda_tile

_OPS = "src/ops/"
_lock = threading.RLock()
_libraries: dict[Path, Library] = {}


class PortedCrate:
    """Module files in, a built library out.

    Attributes:
        root: the crate's folder.
    """

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_dir() / "ported" / generation()

    def has(self, module: str) -> bool:
        """Whether a module's file is there."""
        return self._file(module).is_file()

    def add(self, modules: Mapping[str, str]) -> Library:
        """Add modules (name -> text) and return a library that holds them and everything added before.

        Raises:
            CompileError: rustc refuses one of the modules; none of them is kept.
            BuildError: the crate cannot be built for another reason.
        """
        with self.exclusive():
            self._found()
            new = {name: text for name, text in modules.items() if not self.has(name)}
            for name, text in new.items():
                self._file(name).write_text(text, encoding="utf-8")
            self._list_modules()
            try:
                return self.library()
            except BuildError as error:
                if error.stage in ("preflight", "toolchain"):
                    raise
                for name in new:
                    self._file(name).unlink(missing_ok=True)
                self._list_modules()
                if not new:
                    raise
                names = ", ".join(sorted(new))
                raise CompileError(f"rustc refused {names}, translated from Python: {error}") from error

    def library(self) -> Library:
        """Return the library of the modules that are there, built if need be.

        Raises:
            BuildError: it cannot be built.
        """
        path = ensure_library(self.root, reason="kernels translated from cuTile Python")
        with _lock:
            found = _libraries.get(path)
            if found is None:
                found = _libraries[path] = Library(path)
            return found

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """One process at a time changes the crate."""
        import filelock

        self.root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock, filelock.FileLock(str(self.root.parent / f"{self.root.name}.lock")):
            yield

    def _file(self, module: str) -> Path:
        return self.root / _OPS / f"{module}.rs"

    def _found(self) -> None:
        """Copy the Rust crate without its ops, once; a copy that was interrupted is made again."""
        if (self.root / "Cargo.toml").is_file():
            return
        source, staging = rust_root(), self.root.with_name(f"{self.root.name}.{os.getpid()}")
        shutil.rmtree(staging, ignore_errors=True)
        for name in source_digests(source):
            if not name.startswith(_OPS):
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, staging / name)
        (staging / _OPS).mkdir(parents=True)
        (staging / _OPS / "mod.rs").touch()
        shutil.rmtree(self.root, ignore_errors=True)
        staging.rename(self.root)

    def _list_modules(self) -> None:
        folder = self.root / _OPS
        names = sorted(path.stem for path in folder.glob("*.rs") if path.stem != "mod")
        text = "//! Kernels translated from cuTile Python.\n" + "".join(f"pub mod {name};\n" for name in names)
        if (folder / "mod.rs").read_text(encoding="utf-8") != text:
            (folder / "mod.rs").write_text(text, encoding="utf-8")


@lru_cache(maxsize=1)
def generation() -> str:
    """Name what the generated files depend on besides the Python kernels: translator, cuda-tile, Rust crate."""
    digest = hashlib.sha256(check_cuda_tile().encode())
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    for name, content in source_digests(rust_root()).items():
        if not name.startswith(_OPS):
            digest.update(f"{name}={content}\n".encode())
    return digest.hexdigest()[:16]
