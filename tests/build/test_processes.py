# SPDX-License-Identifier: MIT
"""What other processes, signals and file systems do to a build (bug reports A1, A2, A6)."""

from __future__ import annotations

import os
import signal
import stat
import time
from pathlib import Path

import pytest

from tilegym_rs_backend.build import lock as locks
from tilegym_rs_backend.errors import BuildError

from .conftest import World
from .conftest import gone
from .conftest import tree


def test_eight_cold_processes_build_once(world: World) -> None:
    (world.fake / "sleep").write_text("3", encoding="ascii")
    started = [world.start("print(ensure_library(crate))") for _ in range(8)]
    results = [process.communicate(timeout=50) for process in started]
    assert [process.returncode for process in started] == [0] * 8, results
    assert len({out for out, _ in results}) == 1
    assert world.runs == 1
    waiting = [err for _, err in results if "waiting for process " in err]
    assert len(waiting) == 7
    assert f"log {world.cache / 'build' / 'logs'}" in waiting[0]


def test_waiters_get_the_failure_instead_of_repeating_it(world: World) -> None:
    (world.fake / "sleep").write_text("3", encoding="ascii")
    (world.fake / "fail").write_text("error: linker `cc` not found\n", encoding="ascii")
    started = [world.start("ensure_library(crate)") for _ in range(4)]
    results = [process.communicate(timeout=50) for process in started]
    assert world.runs == 1
    assert all("[link] the build failed" in err and "install a C compiler" in err for _, err in results)


def test_a_killed_owner_blocks_nobody(world: World) -> None:
    (world.fake / "sleep").write_text("60", encoding="ascii")
    owner = world.start("ensure_library(crate)")
    world.wait_for("children")
    owner.kill()
    owner.communicate()
    (world.fake / "sleep").unlink()
    start = time.monotonic()
    status, _, err = world.run()
    assert status == 0, err
    assert time.monotonic() - start < 10
    for pid in (world.fake / "children").read_text(encoding="ascii").split():
        os.kill(int(pid), signal.SIGKILL)


def test_garbage_in_an_unheld_lock_file_is_no_obstacle(world: World) -> None:
    folder = world.cache / "locks"
    status, path, _ = world.run()
    (folder / f"{Path(path).parent.name}.lock").write_text("pid 1 held since 1970", encoding="ascii")
    (folder / f"{Path(path).parent.name}.owner.json").write_text("}{", encoding="ascii")
    status, _, err = world.run("print(ensure_library(crate, force=True))")
    assert status == 0, err
    assert "waiting" not in err


def test_ctrl_c_ends_the_whole_group(world: World) -> None:
    (world.fake / "sleep").write_text("60", encoding="ascii")
    process = world.start("ensure_library(crate)")
    world.wait_for("children")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in err
    children = [int(pid) for name in ("runs", "children") for pid in (world.fake / name).read_text().split()]
    assert all(gone(pid) for pid in children)


def test_a_timeout_ends_the_whole_group(world: World) -> None:
    (world.fake / "sleep").write_text("60", encoding="ascii")
    limit = "from tilegym_rs_backend.build import runner; runner.run_cargo.__kwdefaults__['timeout'] = 1.0"
    status, _, err = world.run(f"{limit}; ensure_library(crate)")
    assert status == 1
    assert "[cargo] cargo was ended after 1 s" in err
    children = [int(pid) for name in ("runs", "children") for pid in (world.fake / name).read_text().split()]
    assert all(gone(pid) for pid in children)


def test_readers_see_a_complete_folder_or_none(world: World, compiled: Path) -> None:
    """A reader that looks all the time while folders are published and set aside again."""
    writer = world.start(
        """
        import os, shutil, time
        from tilegym_rs_backend.build import publish, key as keys
        copy = shutil.copyfile
        def slow(a, b):
            data = Path(a).read_bytes()
            with open(b, "wb") as f:
                f.write(data[:100]); f.flush(); time.sleep(0.01); f.write(data[100:])
        shutil.copyfile = slow
        log = crate / "log"; log.write_text("x")
        for i in range(25):
            key = keys.Key("0" * 64, "0" * 64, {}, {})
            publish.publish(key, "c", Path(os.environ["BUILT"]), [], log)
            time.sleep(0.005)
            publish.set_aside(publish.shelf() / key.short)
        """,
        BUILT=str(compiled / "lib.so"),
    )
    status, out, err = world.run(
        """
        import ctypes, time, os
        from tilegym_rs_backend.build import publish
        seen = complete = 0
        end = time.monotonic() + 30
        while seen < 1000 and time.monotonic() < end and (complete < 20 or seen < 400):
            seen += 1
            found = publish.read(publish.shelf() / ("0" * 16))
            if found:
                try: fd = os.open(found.library, os.O_RDONLY)
                except FileNotFoundError: continue
                assert os.fstat(fd).st_size == found.manifest["size"]
                import hashlib
                assert hashlib.sha256(os.read(fd, 10**7)).hexdigest() == found.manifest["sha256"]
                os.close(fd); complete += 1
            time.sleep(0.002)
        print(complete)
        """
    )
    writer.communicate(timeout=30)
    assert writer.returncode == 0
    assert status == 0, err
    assert int(out) > 0


def test_waiting_too_long_names_the_lock_and_its_holder(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "x.lock"
    with locks.build_lock(path, key="k", log=tmp_path / "log", say=said.append):
        start = time.monotonic()
        with (
            pytest.raises(BuildError, match=f"held by process {os.getpid()} on ") as caught,
            locks.build_lock(path, key="k", log=tmp_path / "log", say=said.append, timeout=0.3),
        ):
            pytest.fail("the lock was taken twice")
        assert time.monotonic() - start < 2
    assert caught.value.stage == "lock"
    assert str(path) in str(caught.value)
    assert not locks.owner_file(path).exists()


def test_a_long_wait_is_not_a_silent_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "SAY_AFTER_S", 0.1)
    monkeypatch.setattr(locks, "SAY_AGAIN_S", 0.2)
    said: list[str] = []
    path = tmp_path / "x.lock"
    with (
        locks.build_lock(path, key="k", log=tmp_path / "log", say=print),
        pytest.raises(BuildError, match="waited 1 s for the lock"),
        locks.build_lock(path, key="k", log=tmp_path / "log", say=said.append, timeout=0.8),
    ):
        pytest.fail("the lock was taken twice")
    assert said[0].startswith(f"waiting for process {os.getpid()} on ")
    assert len(said) >= 3
    assert all(each.startswith(f"still waiting for process {os.getpid()} on ") for each in said[1:])


def test_taking_a_held_lock_does_not_touch_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with locks.build_lock(path, key="k", log=tmp_path / "log", say=print):
        path.write_text("the holder's", encoding="ascii")
        with pytest.raises(BuildError), locks.build_lock(path, key="k", log=tmp_path, say=print, timeout=0.1):
            pass
        assert path.read_text(encoding="ascii") == "the holder's"


def test_nothing_is_written_into_the_package_or_the_crate(world: World) -> None:
    package = Path(locks.__file__).parents[1]
    before = (tree(package), tree(world.crate))
    status, _, err = world.run(PYTHONDONTWRITEBYTECODE="1")
    assert status == 0, err
    assert (tree(package), tree(world.crate)) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere; the next test covers it as another user")
def test_a_read_only_home_gives_one_warning(world: World) -> None:
    home = Path(world.env["HOME"])
    home.chmod(stat.S_IRUSR | stat.S_IXUSR)
    world.env.pop("TILEGYM_RS_CACHE_DIR")
    status, _, err = world.run()
    assert status == 0, err
    assert err.count("RuntimeWarning") == 1


def test_a_home_that_cannot_be_used_gives_one_warning_and_a_private_folder(world: World) -> None:
    """HOME is a file, as good as read-only for anybody, root included."""
    home = world.root / "homefile"
    home.touch()
    world.env.pop("TILEGYM_RS_CACHE_DIR")
    status, path, err = world.run(HOME=str(home))
    assert status == 0, err
    assert err.count("RuntimeWarning") == 1
    private = world.root / f"tilegym-rs-{os.geteuid()}"
    assert path.startswith(str(private))
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_an_explicit_cache_that_cannot_be_used_is_an_error(world: World) -> None:
    (world.root / "file").touch()
    status, _, err = world.run(TILEGYM_RS_CACHE_DIR=str(world.root / "file" / "x"))
    assert status == 1
    assert "TILEGYM_RS_CACHE_DIR=" in err
    assert world.runs == 0


def test_threads_of_one_process_build_once(world: World) -> None:
    status, out, err = world.run(
        """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(8) as pool:
            print(len({pool.submit(ensure_library, crate).result() for _ in range(16)}))
        """
    )
    assert (status, out) == (0, "1"), err
    assert world.runs == 1


def test_importing_builds_nothing_and_needs_no_torch(world: World) -> None:
    status, out, err = world.run("import sys; print('torch' in sys.modules, 'cffi' in sys.modules)")
    assert (status, out) == (0, "False False"), err
    assert not world.cache.exists()
