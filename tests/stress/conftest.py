# SPDX-License-Identifier: MIT
"""Long tests with the real cargo and real filesystems; `make stress` runs them one after the other."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import textwrap
import time
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

import pytest

from ..build.conftest import interpreter

ROOT = Path(__file__).parents[2]
OPEN = "found = library.open(crate); print(found.path, found.build_id)"
PATIENCE_S = 7200
"""A cold build on two cores that many share."""
_ASIDE = ("TILEGYM_RS_LIBRARY", "TILEGYM_RS_AUTOBUILD", "CUTILE_RS_AUTOBUILD", "TILEGYM_RS_RELOAD", "CARGO_TARGET_DIR")


@dataclass
class Site:
    """A crate with one op and a cache of its own, where cargo's runs are counted.

    The private prefix is that of the user's cache, which is only read.
    """

    folder: Path
    crate: Path
    cache: Path
    env: dict[str, str] = field(default_factory=dict)
    cold_s: float = 0.0

    @property
    def runs(self) -> int:
        """How often `cargo build` ran."""
        path = self.folder / "runs"
        return len(path.read_text(encoding="ascii").split()) if path.exists() else 0

    @property
    def kernel(self) -> Path:
        """The file with the kernels."""
        return self.crate / "src" / "ops" / "softmax.rs"

    def edit(self, text: str) -> None:
        """Change the kernels' file, so that a build is due."""
        with self.kernel.open("a", encoding="utf-8") as file:
            file.write(f"// {text}\n")

    def start(self, code: str = OPEN, **env: str) -> subprocess.Popen[str]:
        """Start a fresh interpreter."""
        prelude = (
            f"from pathlib import Path\nfrom tilegym_rs_backend import library\ncrate = Path({str(self.crate)!r})\n"
        )
        return interpreter(prelude + textwrap.dedent(code), {**self.env, **env})

    def run(self, code: str = OPEN, **env: str) -> str:
        """Run a fresh interpreter to its end and return what it said, once it has succeeded."""
        process = self.start(code, **env)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, err
        return out.strip()


@pytest.fixture(scope="session")
def user_cache() -> Path:
    """The cache that holds the private prefix."""
    from tilegym_rs_backend.toolchain.dirs import cache_dir

    return cache_dir()


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, user_cache: Path) -> Site:
    """No library is built there yet; the first test does it.

    With TILEGYM_RS_STRESS_FOLDER set, cargo's target folder stays there for the next run, whose start is then not cold.
    """
    from tilegym_rs_backend.build import rust_root

    folder = Path(os.environ.get("TILEGYM_RS_STRESS_FOLDER") or tmp_path_factory.mktemp("stress"))
    crate = folder / "crate"
    shutil.rmtree(folder / "cache" / "build", ignore_errors=True)
    shutil.rmtree(crate, ignore_errors=True)
    (folder / "runs").unlink(missing_ok=True)
    shutil.copytree(rust_root(), crate, ignore=shutil.ignore_patterns("target"))
    for path in (crate / "src" / "ops").glob("*.rs"):
        if path.name not in ("mod.rs", "softmax.rs"):
            path.unlink()
    (crate / "src" / "ops" / "mod.rs").write_text("pub mod softmax;\n", encoding="ascii")
    cargo = shutil.which("cargo")
    assert cargo is not None
    wrapper = folder / "bin" / "cargo"
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text(
        f'#!/bin/sh\n[ "$1" = build ] && echo $$ >> {folder / "runs"}\nexec {cargo} "$@"\n', encoding="ascii"
    )
    wrapper.chmod(0o755)
    env = {name: value for name, value in os.environ.items() if name not in _ASIDE}
    env |= {
        "PATH": f"{wrapper.parent}:{env['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TILEGYM_RS_CACHE_DIR": f"{folder / 'cache'}:{user_cache}",
        "TILEGYM_RS_CPU": "execute",
    }
    return Site(folder, crate, folder / "cache", env)


@pytest.fixture(scope="session")
def warm(site: Site) -> Site:
    """The same with its dependencies compiled."""
    start = time.monotonic()
    site.run()
    site.cold_s = site.cold_s or time.monotonic() - start
    return site


@pytest.fixture
def chance() -> random.Random:
    """A source of chance whose seed is printed."""
    seed = int(os.environ.get("TILEGYM_RS_STRESS_SEED", time.time_ns() % 10**6))
    print(f"TILEGYM_RS_STRESS_SEED={seed}")
    return random.Random(seed)
