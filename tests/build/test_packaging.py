# SPDX-License-Identifier: MIT
"""What goes into a wheel: the crate as `_rust/`, found by the same look-up as the checkout's `rust/`."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tilegym_rs_backend.build import key as keys
from tilegym_rs_backend.build import manifest
from tilegym_rs_backend.build import publish
from tilegym_rs_backend.build.ensure import ensure_library

from .conftest import World

ROOT = Path(__file__).resolve().parents[2]


def copy_checkout(checkout: Path) -> None:
    """A copy of what a wheel is made from, without anything built."""
    for name in ("tilegym_rs_backend", "pytest_cutile_rs", "rust"):
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("target", "__pycache__", "_lib"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "tilegym_rs_autoload.py"):
        shutil.copy(ROOT / name, checkout / name)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel would hold it."""
    folder = tmp_path_factory.mktemp("packaging")
    checkout = folder / "checkout"
    copy_checkout(checkout)
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


FIND = "from tilegym_rs_backend.build import ensure_library; print(ensure_library())"


def find(site: Path, world: World) -> subprocess.CompletedProcess[str]:
    """Ask an installed package for its library, where no tool is."""
    environment = {"PYTHONPATH": str(site), "PATH": "/nonexistent", "HOME": str(world.root), "TMPDIR": str(world.root)}
    return subprocess.run(
        [sys.executable, "-c", FIND], env=environment, cwd=site, capture_output=True, text=True, check=False
    )


def test_pip_wheel_carries_a_built_library_which_is_found_before_any_build(world: World) -> None:
    checkout, site = world.root / "checkout", world.root / "site"
    copy_checkout(checkout)
    published = publish.read(ensure_library(checkout / "rust").parent)
    assert published is not None
    carried = publish.copy_to(published, checkout / "tilegym_rs_backend" / "_lib")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(world.root), "."], cwd=checkout, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [wheel] = world.root.glob("*.whl")
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    assert keys.source_key(site / "tilegym_rs_backend" / "_rust") == published.manifest["source_key"]
    done = find(site, world)
    assert done.stdout.strip() == str(site / "tilegym_rs_backend" / "_lib" / carried.name), done.stderr
    assert world.runs == 1
    with (site / "tilegym_rs_backend" / "_rust" / "src" / "lib.rs").open("a", encoding="utf-8") as source:
        source.write("// another version\n")
    done = find(site, world)
    assert (done.returncode, "cargo is neither on PATH" in done.stderr) == (1, True)


def test_an_installation_without_sources_says_so(built: Path, world: World) -> None:
    site = world.root / "site"
    shutil.copytree(built, site)
    shutil.rmtree(site / "tilegym_rs_backend" / "_rust")
    done = find(site, world)
    assert done.returncode == 1
    assert "this installation was made without them and carries no library for them either" in done.stderr
    assert "set TILEGYM_RS_LIBRARY to a built libcutile_kernels.so" in done.stderr
