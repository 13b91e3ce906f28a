# SPDX-License-Identifier: MIT
"""Clocks that are wrong, disks that are full, caches that are only read, and what a killed build leaves running."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.build import publish
from tilegym_rs_backend.build import quarantine
from tilegym_rs_backend.build import runner
from tilegym_rs_backend.build.crate import target_lock
from tilegym_rs_backend.build.lock import build_lock
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.store import Store
from tilegym_rs_backend.toolchain import prefix

from .conftest import World
from .conftest import alive
from .conftest import executable
from .conftest import gone
from .conftest import tree


def test_what_a_killed_build_left_running_is_ended(world: World) -> None:
    """cargo goes on when its parent is killed, and its lock would stop the next one in silence."""
    (world.fake / "sleep").write_text("60", encoding="ascii")
    owner = world.start("ensure_library(crate)")
    world.wait_for("children")
    while not any('"group"' in path.read_text() for path in (world.cache / "locks").glob("target-*.json")):
        time.sleep(0.02)
    owner.kill()
    owner.communicate()
    left = [int(pid) for name in ("runs", "children") for pid in (world.fake / name).read_text().split()]
    assert all(alive(pid) for pid in left)
    (world.fake / "sleep").unlink()
    status, _, err = world.run()
    assert status == 0, err
    assert f"ending process group {left[0]}, which process {owner.pid} left running when it was killed" in err
    assert all(gone(pid) for pid in left)


def test_what_a_killed_compiler_left_half_done_is_not_used_again(world: World) -> None:
    """rustc's incremental state: after a kill its objects may no longer fit each other, and no later build links."""
    path = ensure_library(world.crate)
    [target] = (world.cache / "target").iterdir()
    state = target / "release" / "incremental"
    state.mkdir()
    assert ensure_library(world.crate, force=True) == path
    assert state.is_dir(), "kept after a build that ended by itself"
    (world.fake / "fail").write_text("error[E0425]: cannot find value `y`\n", encoding="ascii")
    with pytest.raises(BuildError):
        ensure_library(world.crate, force=True)
    (world.fake / "fail").unlink()
    assert ensure_library(world.crate, force=True) == path
    assert state.is_dir(), "and after one that failed by itself"
    (world.fake / "sleep").write_text("60", encoding="ascii")
    (world.fake / "children").unlink(missing_ok=True)
    owner = world.start("ensure_library(crate, force=True)")
    world.wait_for("children")
    owner.kill()
    owner.communicate()
    (world.fake / "sleep").unlink()
    assert ensure_library(world.crate, force=True).exists()
    assert not state.exists()


def test_a_number_that_another_process_has_by_now_is_left_alone(tmp_path: Path, world: World) -> None:
    status, path, err = world.run()
    assert status == 0, err
    lock = world.cache / "locks" / f"{Path(path).parent.name}.lock"
    child = subprocess.Popen(["sleep", "30"], start_new_session=True)
    with build_lock(lock, key="k", log=tmp_path, say=print) as held:
        held.works_with(child.pid)
        record = lock.with_suffix(".owner.json").read_text(encoding="ascii")
    changed = record.replace('"group_start": ', '"group_start": 1')
    lock.with_suffix(".owner.json").write_text(changed, encoding="ascii")
    with build_lock(lock, key="k", log=tmp_path, say=print):
        assert alive(child.pid)
    lock.with_suffix(".owner.json").write_text(record, encoding="ascii")
    with build_lock(lock, key="k", log=tmp_path, say=print):
        assert gone(child.pid)
    child.communicate()


def test_crates_that_share_a_target_folder_get_their_own_libraries(world: World) -> None:
    """cargo puts both under one name; between its end and the copy nobody else may build there."""
    script = (world.fake / "bin" / "cargo").read_text(encoding="ascii")
    script = script.replace(
        'cp "$FAKE/lib.so" "$out/libcutile_kernels.so"', 'cp "$manifest" "$out/libcutile_kernels.so"'
    )
    executable(world.fake / "bin" / "cargo", script + "sleep 0.4\n")
    other = world.root / "other"
    other.mkdir()
    for path in world.crate.rglob("*"):
        target = other / path.relative_to(world.crate)
        target.mkdir(exist_ok=True) if path.is_dir() else target.write_bytes(path.read_bytes())
    for root in (world.crate, other):
        (root / "Cargo.toml").write_text(f'[package]\nname = "cutile_kernels"\n# {root}\n', encoding="ascii")
    started = [world.start(f"print(ensure_library(Path({str(root)!r})))") for root in (world.crate, other)]
    for process, root in zip(started, (world.crate, other), strict=True):
        out, err = process.communicate(timeout=50)
        assert process.returncode == 0, err
        assert f"# {root}\n" in Path(out.strip()).read_text(encoding="ascii")


def test_a_log_on_a_full_disk_stops_nothing() -> None:
    """/dev/full refuses every write; a reader that gave up would leave cargo waiting for its pipe for ever."""
    code = "import sys; [sys.stderr.write('x' * 99 + '\\n') for _ in range(20000)]; print('{\"reason\": \"done\"}')"
    outcome = runner.run_cargo(
        [sys.executable, "-c", code],
        cwd=Path("/"),
        env={},
        log_path=Path("/dev/full"),
        say=print,
        timeout=30,
    )
    assert (outcome.returncode, outcome.timed_out) == (0, False)
    assert outcome.messages == [{"reason": "done"}]
    assert len(outcome.log) == 2_000_000


def test_a_log_that_cannot_be_opened_is_named(world: World) -> None:
    folder = world.cache / "build" / "logs"
    status, path, _ = world.run()
    assert status == 0
    log = folder / f"{Path(path).parent.name}.log"
    log.unlink()
    log.mkdir()
    status, _, err = world.run("ensure_library(crate, force=True)")
    assert status == 1
    assert f"[cargo] cargo cannot be run, or its log cannot be opened: [Errno 21] Is a directory: '{log}'" in err


def test_a_full_disk_is_told_before_cargo_starts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1_000_000_000}))
    with pytest.raises(BuildError, match=r"has 1\.00 GB free, this build needs 1\.2 GB") as caught:
        ensure_library(world.crate)
    assert "set TILEGYM_RS_CACHE_DIR to a larger disk" in str(caught.value)
    assert world.runs == 0


def test_a_disk_that_fills_up_while_publishing_leaves_nothing_half_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copyfile

    def full(source: Path, target: Path) -> object:
        if target.name == "build.log":
            raise OSError(28, "No space left on device", str(target))
        return copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(BuildError, match=r"\[publish\] the built library cannot be put in .*No space left") as caught:
        ensure_library(world.crate)
    assert "fix: free some disk space, or set TILEGYM_RS_CACHE_DIR to another directory" in str(caught.value)
    assert list(publish.shelf().iterdir()) == []
    monkeypatch.undo()
    assert world.run()[0] == 0, "with space again it goes on"


@pytest.mark.parametrize("days", [-400, -1, 1, 400])
def test_files_from_a_clock_that_is_wrong(world: World, days: int) -> None:
    """A container image from the future, a disk whose server lives in the past: content counts, and edits are seen."""
    first = ensure_library(world.crate)
    for path in world.crate.rglob("*"):
        os.utime(path, (time.time() + days * 86400,) * 2)
    assert ensure_library(world.crate) == first
    kernel = world.crate / "src" / "ops" / "softmax.rs"
    kernel.write_text("// two\n", encoding="ascii")
    os.utime(kernel, (time.time() + days * 86400,) * 2)
    assert ensure_library(world.crate) != first
    assert world.runs == 2


@pytest.mark.parametrize("hours", [-30, 30])
def test_a_host_clock_that_is_wrong(world: World, hours: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Staging folders are as old as the filesystem says, so a running build of another host is not swept away."""
    path = ensure_library(world.crate)
    running = publish.shelf() / ".staging-otherhost-1-abcd"
    running.mkdir()
    left = publish.shelf() / ".staging-otherhost-2-abcd"
    left.mkdir()
    os.utime(left, (time.time() - 2 * publish.STALE_STAGING_S,) * 2)
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + hours * 3600)
    (world.crate / "src" / "lib.rs").write_text("// two\n", encoding="ascii")
    assert ensure_library(world.crate) != path
    assert running.is_dir()
    assert not left.exists()


def test_a_cache_that_is_only_read_serves_its_library(world: World) -> None:
    """Bug reports A6 and X7: an administrator's cache, found by what it holds, and never written to."""
    status, built, err = world.run()
    assert status == 0, err
    before = tree(world.cache)
    chain = f"{world.root / 'own'}:{world.cache}"
    assert world.run(TILEGYM_RS_CACHE_DIR=chain)[:2] == (0, built)
    assert world.run(TILEGYM_RS_CACHE_DIR=chain, TILEGYM_RS_AUTOBUILD="0")[:2] == (0, built)
    assert world.run(TILEGYM_RS_CACHE_DIR=f"off:{world.cache}")[:2] == (0, built)
    (world.fake / "bin" / "cargo").unlink()
    assert world.run(TILEGYM_RS_CACHE_DIR=chain, PATH="/usr/bin:/bin")[:2] == (0, built)
    assert tree(world.cache) == before
    assert world.runs == 1


def test_what_a_cache_that_is_only_read_lacks_is_built_into_ones_own(world: World) -> None:
    world.run()
    before = tree(world.cache)
    (world.crate / "src" / "lib.rs").write_text("// two\n", encoding="ascii")
    status, built, err = world.run(TILEGYM_RS_CACHE_DIR=f"{world.root / 'own'}:{world.cache}")
    assert status == 0, err
    assert built.startswith(str(world.root / "own"))
    assert "building crate: changed: src/lib.rs" in err, "compared with the library that is only read"
    assert tree(world.cache) == before


def test_a_bad_library_in_a_cache_that_is_only_read_is_built_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = ensure_library(world.crate)
    before = tree(world.cache)
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", f"{world.root / 'own'}:{world.cache}")
    assert ensure_library(world.crate) == bad
    assert quarantine(bad) is None
    again = ensure_library(world.crate)
    assert again.is_relative_to(world.root / "own")
    assert ensure_library(world.crate) == again
    assert tree(world.cache) == before


def test_the_cubin_stores_of_a_chain(tmp_path: Path) -> None:
    shared, own = Store(tmp_path / "shared"), Store(tmp_path / "own", [tmp_path / "shared"])
    shared.put_cubin("aa1", b"shared")
    shared.put_lookup("k1", "aa1")
    assert (own.digest_of("k1"), own.cubin("aa1")) == ("aa1", b"shared")
    [damaged] = (tmp_path / "shared").rglob("aa1")
    damaged.write_bytes(b"damaged")
    assert own.cubin("aa1") is None
    assert damaged.read_bytes() == b"damaged", "what is only read is not mended either"
    own.put_cubin("aa1", b"own")
    assert own.cubin("aa1") == b"own"


def test_the_prefix_of_a_cache_that_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"cuda-{prefix.lock_hash('toolkit')}"
    place = tmp_path / "shared" / "prefix" / name
    place.mkdir(parents=True)
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", f"{tmp_path / 'own'}:{tmp_path / 'shared'}")
    assert prefix.toolkit_prefix() == tmp_path / "own" / "prefix" / name, "where it would be installed"
    (place / prefix.STAMP).touch()
    assert prefix.toolkit_prefix() == place


def test_pruning_keeps_what_is_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilegym_rs_backend import cli
    from tilegym_rs_backend.build.crate import USED

    kept = ensure_library(world.crate)
    other = world.crate.rename(world.root / "other")
    third = ensure_library(other)
    assert kept == third, "the place of a crate is no part of its key"
    [current] = (world.cache / "target").iterdir()
    folders = {name: world.cache / "target" / name for name in ("old", "recent", "busy")}
    for name, folder in folders.items():
        (folder / "release").mkdir(parents=True)
        (folder / "release" / "big").write_bytes(b"x" * 1000)
        (folder / USED).touch()
        age = 3600 if name == "recent" else 30 * 86400
        os.utime(folder / USED, (time.time() - age,) * 2)
    os.utime(current / USED, (0, 0))
    staging = publish.shelf() / ".staging-host-1-abcd"
    staging.mkdir()
    with build_lock(target_lock(folders["busy"]), key="k", log=world.root, say=print):
        assert cli.main(["cache", "prune"]) == 0
    assert sorted(path.name for path in (world.cache / "target").iterdir()) == sorted([current.name, "busy", "recent"])
    assert staging.is_dir()
    assert kept.exists()


def test_ctrl_c_twice_still_ends_the_whole_group(world: World) -> None:
    stubborn = (
        "#!/bin/sh\n[ $1 = --version ] && echo cargo 1.95.0 && exit\ntrap '' TERM INT\necho $$ >> $FAKE/children\n"
    )
    executable(world.fake / "bin" / "cargo", f"{stubborn}sleep 60 & echo $! >> $FAKE/children\nwait\nsleep 60\n")
    process = world.start("ensure_library(crate)")
    world.wait_for("children")
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert all(gone(int(pid)) for pid in (world.fake / "children").read_text(encoding="ascii").split())
