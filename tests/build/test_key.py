# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tilegym_rs_backend.build import key as keys
from tilegym_rs_backend.build import sweep
from tilegym_rs_backend.build.explain import difference
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.toolchain.toolkit import find_toolkit

from .conftest import World


def _key(world: World) -> keys.Key:
    return keys.build_key(world.crate, toolkit=find_toolkit(headers=True))


def test_older_mtime_with_other_bytes_is_another_key(world: World) -> None:
    """Bug report A4: a checkout of an older file, a container copy."""
    before = keys.source_key(world.crate)
    path = world.crate / "src" / "ops" / "softmax.rs"
    path.write_text("// two\n", encoding="ascii")
    old = time.time() - 10 * 365 * 86400
    os.utime(path, (old, old))
    assert keys.source_key(world.crate) != before


def test_same_size_and_same_mtime_is_noticed_through_the_change_time(world: World) -> None:
    path = world.crate / "src" / "ops" / "softmax.rs"
    status = path.stat()
    before = keys.source_key(world.crate)
    time.sleep(0.03)
    path.write_text("// two\n", encoding="ascii")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert keys.source_key(world.crate) != before


def test_touching_everything_changes_nothing(world: World) -> None:
    before = _key(world)
    for path in world.crate.rglob("*"):
        path.touch()
    assert _key(world) == before


def test_deleting_or_adding_a_file_is_another_key(world: World) -> None:
    before = keys.source_key(world.crate)
    extra = world.crate / "src" / "ops" / "extra.rs"
    extra.touch()
    added = keys.source_key(world.crate)
    (world.crate / "src" / "ops" / "softmax.rs").unlink()
    assert len({before, added, keys.source_key(world.crate)}) == 3


@pytest.mark.parametrize("name", ["Cargo.toml", "Cargo.lock", "src/lib.rs"])
def test_a_missing_required_file_is_named(world: World, name: str) -> None:
    (world.crate / name).unlink()
    with pytest.raises(BuildError, match=name):
        keys.source_key(world.crate)


def test_editor_files_target_and_tests_do_not_count(world: World) -> None:
    before = keys.source_key(world.crate)
    for name in ("src/.#lib.rs", "src/lib.rs~", "src/ops/.softmax.rs.swp", "target/x.rs", "tests/t.rs", "README.md"):
        path = world.crate / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x", encoding="ascii")
    assert keys.source_key(world.crate) == before


def test_the_source_key_does_not_depend_on_where_the_crate_lies(world: World, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "_rust"
    shutil.copytree(world.crate, copy)
    assert keys.source_key(copy) == keys.source_key(world.crate)


def test_what_builds_it_is_in_the_build_key_and_explained(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _key(world)
    monkeypatch.setenv("RUSTFLAGS", "-Ctarget-cpu=native")
    flags = _key(world)
    assert flags.source == before.source
    old = {"files": before.files, "components": before.components}
    assert difference(old, flags) == ["rustflags: nothing -> '-Ctarget-cpu=native'"]
    features = keys.build_key(world.crate, toolkit=None, features=["b", "a"])
    assert features.source != before.source
    assert {"cuda: '13040' -> 'none'", "features: nothing -> 'a,b'"} <= set(difference(old, features))
    (world.crate / "src" / "ops" / "softmax.rs").write_text("// two\n", encoding="ascii")
    assert any(line.startswith("changed: src/ops/softmax.rs") for line in difference(old, _key(world)))


def test_the_sweep_sees_content_not_times(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "INTERVAL_S", 0.0)
    signature, taken = sweep.snapshot(world.crate)
    sweep.watch(world.crate, keys.source_key(world.crate), signature, taken)
    assert not sweep.sources_changed(world.crate)
    path = world.crate / "src" / "ops" / "softmax.rs"
    path.touch()
    assert not sweep.sources_changed(world.crate)
    path.write_text("// two\n", encoding="ascii")
    os.utime(path, (1, 1))
    assert sweep.sources_changed(world.crate)
    monkeypatch.setenv("TILEGYM_RS_RELOAD", "0")
    assert not sweep.sources_changed(world.crate)
    monkeypatch.delenv("TILEGYM_RS_RELOAD")
    path.unlink()
    (world.crate / "Cargo.lock").unlink()
    assert sweep.sources_changed(world.crate)


def test_the_sweep_rests_half_a_second(world: World) -> None:
    signature, taken = sweep.snapshot(world.crate)
    sweep.watch(world.crate, keys.source_key(world.crate), signature, taken)
    (world.crate / "src" / "lib.rs").write_text("// two\n", encoding="ascii")
    assert not sweep.sources_changed(world.crate)
    time.sleep(sweep.INTERVAL_S + 0.05)
    assert sweep.sources_changed(world.crate)


def test_an_installed_crate_is_never_swept(world: World) -> None:
    installed = world.crate.rename(world.root / "_rust")
    assert sweep.snapshot(installed) == (None, 0)
