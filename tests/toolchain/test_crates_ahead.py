# SPDX-License-Identifier: MIT
"""Crates compiled beside a set-up: with a cargo that only says what it was told."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.toolchain import ahead
from tilegym_rs_backend.toolchain.progress import Rate


class Host:
    """A host whose cargo is a shell script; everything it does lies in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.installed: list[str] = []

    def cargo(self, script: str) -> None:
        """Make cargo run ``script``; ``$SEEN`` is the file that says it was there."""
        path = self.folder / "cargo"
        path.write_text(f"#!/bin/sh\nSEEN={self.folder}/seen\n{script}\n")
        path.chmod(0o755)

    @property
    def seen(self) -> str:
        """What cargo wrote."""
        path = self.folder / "seen"
        return path.read_text() if path.exists() else ""

    def wait(self) -> None:
        """Until cargo wrote something."""
        end = time.monotonic() + 20
        while not self.seen and time.monotonic() < end:
            time.sleep(0.01)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host(tmp_path)
    monkeypatch.setattr(ahead, "target_dir", lambda: tmp_path / "target")
    monkeypatch.setattr(ahead, "build_dir", lambda: tmp_path / "build")
    monkeypatch.setattr(ahead, "find_cargo", lambda: SimpleNamespace(path=tmp_path / "cargo"))
    monkeypatch.setattr(ahead, "find_toolkit", lambda headers: None)
    monkeypatch.setattr(ahead, "cargo_env", lambda toolkit, build_id: {**os.environ, "TOLD": build_id or "no id"})
    monkeypatch.setattr(ahead.install, "install", lambda name, rate: made.installed.append(name))
    monkeypatch.delenv("TILEGYM_RS_OFFLINE", raising=False)
    return made


def test_it_runs_beside_the_block_and_is_waited_for(host: Host, tmp_path: Path) -> None:
    host.cargo('echo "$TOLD $@" > $SEEN; sleep 0.5; echo done >> $SEEN; echo said')
    with ahead.compiling(tmp_path / "rust", Rate()):
        host.wait()
        assert host.seen == f"no id build --release --lib --locked --manifest-path {tmp_path}/rust/Cargo.toml\n"
    assert host.seen.endswith("done\n")
    assert host.installed == ["toolkit"]
    assert (tmp_path / "build" / "logs" / "crates.log").read_text() == "said\n"


def test_crates_that_are_there_are_left_alone(host: Host, tmp_path: Path) -> None:
    host.cargo("echo called > $SEEN")
    (tmp_path / "target" / "1f" / "release" / "deps").mkdir(parents=True)
    with ahead.compiling(tmp_path / "rust", Rate()):
        pass
    assert (host.seen, host.installed) == ("", [])


def test_its_failure_is_the_builds_to_report(host: Host, tmp_path: Path) -> None:
    host.cargo("echo called > $SEEN; exit 101")
    with ahead.compiling(tmp_path / "rust", Rate()):
        host.wait()
    assert host.seen == "called\n"


def test_without_a_toolkit_the_block_runs_alone(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(headers: bool) -> None:
        raise ToolchainError("none fits")

    monkeypatch.setattr(ahead, "find_toolkit", missing)
    ran = []
    with ahead.compiling(tmp_path / "rust", Rate()):
        ran.append(1)
    assert ran == [1]


def test_a_set_up_that_fails_or_is_interrupted_leaves_nothing_running(host: Host, tmp_path: Path) -> None:
    host.cargo("sleep 60 & echo $$ $! > $SEEN; wait")
    begin = time.monotonic()

    def interrupted() -> None:
        with ahead.compiling(tmp_path / "rust", Rate()):
            host.wait()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.monotonic() - begin < 30
    assert not any(_runs(int(number)) for number in host.seen.split())


def _runs(number: int) -> bool:
    """Whether a process is still there after two seconds, other than waiting for its parent to notice its end."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return False
        if state == "Z":
            return False
        time.sleep(0.01)
    return True
