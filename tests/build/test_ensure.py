# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.build import key as keys
from tilegym_rs_backend.build import publish
from tilegym_rs_backend.build import quarantine
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.errors import ToolchainError

from .conftest import World
from .conftest import executable


def test_builds_once_then_finds_it(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    path = ensure_library(world.crate)
    assert ensure_library(world.crate) == path
    assert world.runs == 1
    said = capsys.readouterr().err
    assert "building crate: no library of this crate was built here yet (log: " in said
    assert "built libcutile_kernels-" in said
    folder = path.parent
    manifest = json.loads((folder / "build.json").read_text(encoding="utf-8"))
    assert path.name == f"libcutile_kernels-{folder.name}.so"
    assert manifest["build_id"] == folder.name
    assert manifest["source_key"] == keys.source_key(world.crate)
    assert {each.name for each in folder.iterdir()} == {path.name, "cutile_kernels.h", "build.log", "build.json"}
    assert "Compiling fake" in (folder / "build.log").read_text(encoding="utf-8")


def test_an_edit_builds_again_and_says_why(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    first = ensure_library(world.crate)
    (world.crate / "src" / "ops" / "softmax.rs").write_text("// two\n", encoding="ascii")
    os.utime(world.crate / "src" / "ops" / "softmax.rs", (1, 1))
    second = ensure_library(world.crate)
    assert second != first
    assert first.exists()
    assert "building crate: changed: src/ops/softmax.rs" in capsys.readouterr().err
    (world.crate / "src" / "ops" / "softmax.rs").write_text("// one\n", encoding="ascii")
    assert ensure_library(world.crate) == first
    assert world.runs == 2


def test_a_new_compiler_builds_again(world: World) -> None:
    world.run()
    (world.fake / "rustc").write_text("rustc 1.96.0 (fake)\n", encoding="ascii")
    status, _, err = world.run()
    assert status == 0
    assert "building crate: rustc: 'rustc 1.95.0 (fake)' -> 'rustc 1.96.0 (fake)'" in err


@pytest.mark.parametrize("name", ["TILEGYM_RS_AUTOBUILD", "CUTILE_RS_AUTOBUILD"])
def test_autobuild_off_is_a_clear_error_and_a_built_library_still_works(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "0")
    with pytest.raises(BuildError, match="building on demand is switched off") as caught:
        ensure_library(world.crate)
    assert keys.source_key(world.crate)[:16] in str(caught.value)
    assert "fix: run `tilegym-rs build`" in str(caught.value)
    path = ensure_library(world.crate, force=True)
    assert ensure_library(world.crate) == path


def test_without_leave_to_build_another_compilers_library_of_the_same_sources_serves(world: World) -> None:
    _, path, _ = world.run()
    (world.fake / "rustc").write_text("rustc 1.96.0 (fake)\n", encoding="ascii")
    assert world.run(TILEGYM_RS_AUTOBUILD="0")[:2] == (0, path)
    assert world.runs == 1
    assert world.run()[1] != path, "with leave the new compiler builds its own"


def test_a_child_forked_while_a_thread_builds_is_not_stuck(world: World) -> None:
    (world.fake / "sleep").write_text("3", encoding="ascii")
    status, out, err = world.run(
        """
        import os, threading, time
        threading.Thread(target=ensure_library, args=(crate,)).start()
        while not (Path(os.environ["FAKE"]) / "runs").exists(): time.sleep(0.02)
        pid = os.fork()
        if pid == 0:
            path = ensure_library(crate)
            os._exit(0 if path.exists() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    )
    assert (status, out) == (0, "0"), err
    assert "waiting for process" in err
    assert world.runs == 1


def test_a_failure_is_told_with_its_first_error_and_not_repeated(world: World) -> None:
    log = (
        "   Compiling x v1\nwarning: unused\n --> a.rs:1\n\nerror[E0425]: cannot find value `y` in this scope\n"
        " --> src/ops/softmax.rs:7:9\n  |\n7 |     y\n\nerror: could not compile `x` (lib) due to 1 previous error\n"
    )
    (world.fake / "fail").write_text(log, encoding="ascii")
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            ensure_library(world.crate)
    assert world.runs == 1
    error = caught.value
    assert error.stage == "cargo"
    assert error.returncode == 101
    assert "error[E0425]: cannot find value `y`" in str(error)
    assert "src/ops/softmax.rs:7:9" in str(error)
    assert "could not compile" not in str(error)
    assert error.log_path is not None
    assert "warning: unused" in error.log_path.read_text(encoding="utf-8")
    (world.fake / "fail").unlink()
    with pytest.raises(BuildError):
        ensure_library(world.crate)
    assert ensure_library(world.crate, force=True).exists()


def test_sources_edited_during_the_build_are_built_again(world: World) -> None:
    (world.fake / "edit").write_text("// an edit while cargo ran\n", encoding="ascii")
    path = ensure_library(world.crate)
    assert world.runs == 2
    manifest = json.loads((path.parent / "build.json").read_text(encoding="utf-8"))
    assert manifest["source_key"] == keys.source_key(world.crate)
    assert len(list(publish.everything())) == 1


def test_without_cargo_a_library_for_the_same_sources_serves(world: World) -> None:
    _, path, _ = world.run()
    (world.fake / "bin" / "cargo").unlink()
    status, again, _ = world.run(PATH="/usr/bin:/bin")
    assert (status, again) == (0, path)
    (world.crate / "src" / "lib.rs").write_text("// other\n", encoding="ascii")
    status, _, err = world.run(PATH="/usr/bin:/bin")
    assert status == 1
    assert "cargo is neither on PATH nor in ~/.cargo/bin" in err
    assert "rustup" in err


def test_without_cc_the_error_comes_before_cargo(world: World) -> None:
    """Bug report X4."""
    status, _, err = world.run(PATH=str(world.fake / "bin"))
    assert status == 1
    assert "the Rust kernels cannot be built here: no C compiler: `cc` is not on PATH" in err
    assert "apt-get install gcc" in err
    assert world.runs == 0


def test_all_that_is_missing_is_told_at_once(world: World) -> None:
    status, _, err = world.run(PATH="/nonexistent", TILEGYM_RS_TOOLKIT=str(world.root / "nowhere"))
    assert status == 1
    for text in (
        "the Rust kernels cannot be built here: several things are missing:\n- cargo is neither on PATH",
        "\n- no C compiler: `cc` is not on PATH",
        f"\n- TILEGYM_RS_TOOLKIT is set but cannot be used:\n  TILEGYM_RS_TOOLKIT: {world.root / 'nowhere'}",
    ):
        assert text in err


def test_without_a_fitting_toolkit_the_candidates_are_listed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGYM_RS_TOOLKIT", str(world.root / "nowhere"))
    with pytest.raises(ToolchainError, match="nowhere: no such directory"):
        ensure_library(world.crate)


def test_libclang_without_headers_is_named_before_cargo(world: World, tmp_path: Path) -> None:
    """Bug report A7, the doctor's and preflight's half."""
    bad = tmp_path / "badclang"
    bad.mkdir()
    (bad / "libclang.so").write_bytes(b"not a library")
    status, _, err = world.run(LIBCLANG_PATH=str(bad))
    assert status == 1
    assert "[preflight]" in err
    assert "libclang-dev" in err
    assert "BINDGEN_EXTRA_CLANG_ARGS" in err
    assert world.runs == 0


def test_an_explicit_library_is_taken_as_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGYM_RS_LIBRARY", str(world.fake / "lib.so"))
    assert ensure_library() == world.fake / "lib.so"
    with pytest.raises(BuildError, match=r"TILEGYM_RS_LIBRARY=.* does not fit this version"):
        quarantine(world.fake / "lib.so")
    monkeypatch.setenv("TILEGYM_RS_LIBRARY", str(world.fake / "none.so"))
    with pytest.raises(BuildError, match=r"none\.so is not a file"):
        ensure_library()


def test_a_bad_library_is_set_aside_and_built_again(world: World) -> None:
    path = ensure_library(world.crate)
    aside = quarantine(path)
    assert aside is not None
    assert ".bad-" in aside.name
    assert ensure_library(world.crate) == path
    assert world.runs == 2


@pytest.mark.parametrize("damage", ["truncate", "no manifest", "no library"])
def test_a_damaged_folder_counts_as_nothing(world: World, damage: str) -> None:
    path = ensure_library(world.crate)
    if damage == "truncate":
        os.truncate(path, 10)
    else:
        (path if damage == "no library" else path.parent / "build.json").unlink()
    assert publish.read(ensure_library(world.crate).parent) is not None
    assert world.runs == 2


def test_offline_is_passed_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEGYM_RS_OFFLINE", "1")
    path = ensure_library(world.crate)
    command = json.loads((path.parent / "build.json").read_text(encoding="utf-8"))["command"]
    assert command[-1] == "--offline"
    assert "--locked" in command


def test_the_users_target_folder_is_left_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bug report X3."""
    monkeypatch.setenv("CARGO_TARGET_DIR", str(world.root / "shared"))
    ensure_library(world.crate)
    assert not (world.root / "shared").exists()
    assert list((world.cache / "target").glob("*/release"))


def test_cargo_writing_no_library_is_an_error(world: World) -> None:
    executable(world.fake / "bin" / "cargo", "#!/bin/sh\n[ $1 = --version ] && echo cargo 1.95.0\nexit 0\n")
    with pytest.raises(BuildError, match="named no shared library"):
        ensure_library(world.crate)
