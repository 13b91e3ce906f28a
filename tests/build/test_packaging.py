# SPDX-License-Identifier: MIT
"""What goes into a wheel: the crate as `_rust/`, found by the same look-up as the checkout's `rust/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tilegym_rs_backend.build import key as keys
from tilegym_rs_backend.build import manifest
from tilegym_rs_backend.build import publish
from tilegym_rs_backend.build.ensure import ensure_library

from .conftest import World

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel would hold it, made from a copy without anything built."""
    folder = tmp_path_factory.mktemp("packaging")
    checkout = folder / "checkout"
    for name in ("tilegym_rs_backend", "pytest_cutile_rs", "rust"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("target", "__pycache__", "_lib"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "tilegym_rs_autoload.py"):
        shutil.copy(ROOT / name, checkout / name)
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(folder / "lib")]
    answer = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return folder / "lib"


def test_the_wheel_holds_the_crate_and_the_locks(built: Path) -> None:
    crate = built / "tilegym_rs_backend" / "_rust"
    assert manifest.source_files(crate) == manifest.source_files(ROOT / "rust")
    assert keys.source_key(crate) == keys.source_key(ROOT / "rust")
    assert (built / "tilegym_rs_backend" / "toolchain" / "locks" / "environment.txt").is_file()
    assert (built / "tilegym_rs_backend" / "py.typed").is_file()
    for source in (ROOT / "tilegym_rs_backend").rglob("*.py"):
        assert (built / source.relative_to(ROOT)).is_file()


def test_an_installed_package_finds_its_own_crate(built: Path) -> None:
    code = "from tilegym_rs_backend.build import rust_root; print(rust_root())"
    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(built)},
        cwd=built,
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stdout.strip() == str(built / "tilegym_rs_backend" / "_rust")


def test_a_library_carried_along_is_found_by_its_source_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilegym_rs_backend.build import ensure

    published = publish.read(ensure_library(world.crate).parent)
    assert published is not None
    carried = publish.copy_to(published, world.root / "package" / "_lib")
    shutil.rmtree(world.cache)
    monkeypatch.setattr(ensure, "__file__", str(world.root / "package" / "build" / "ensure.py"))
    monkeypatch.setenv("TILEGYM_RS_AUTOBUILD", "0")
    monkeypatch.setenv("PATH", "/nonexistent")
    assert ensure_library(world.crate) == carried
    (world.crate / "src" / "lib.rs").write_text("// edited\n", encoding="ascii")
    assert ensure.shipped(keys.source_key(world.crate)) is None
