# SPDX-License-Identifier: MIT
from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.toolchain import dirs


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("TILEGYM_RS_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    dirs._choose_cache.cache_clear()
    dirs._choose_local.cache_clear()


def test_the_users_cache_is_the_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert dirs.cache_dir() == tmp_path / ".cache" / "tilegym-rs"
    assert stat.S_IMODE(dirs.cache_dir().stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert dirs.cache_dir() == tmp_path / "xdg" / "tilegym-rs"
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path / "own"))
    assert dirs.cache_dir() == tmp_path / "own"
    assert dirs.target_dir() == tmp_path / "own" / "target"


def test_a_directory_others_can_write_is_refused_or_tightened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(shared))
    with pytest.raises(ToolchainError, match="can be written by others"):
        dirs.cache_dir()
    assert dirs.refusal(shared) is None
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    assert f"belongs to uid {owner}" in str(dirs.refusal(tmp_path))


def test_a_noexec_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dirs, "mount_of", lambda path: dirs.Mount("/", "tmpfs", noexec=True))
    assert "noexec" in str(dirs.refusal(tmp_path))


def test_on_a_network_filesystem_locks_and_target_go_to_a_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dirs.mount_of
    cache = tmp_path / ".cache" / "tilegym-rs"
    shared = dirs.Mount("/home", "nfs4", noexec=False)
    monkeypatch.setattr(dirs, "mount_of", lambda path: shared if path == cache else real(path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert dirs.cache_dir() == cache
    assert dirs.local_dir().parent == tmp_path
    assert dirs.lock_dir().parent == dirs.target_dir().parent == dirs.local_dir()
    assert dirs.build_dir().parent == cache


def test_mounts_are_read_with_their_longest_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a / ext4 rw 0 0\nb /home nfs4 rw,noexec 0 0\nc /home/me\\040x xfs rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **_: text)
    assert dirs.mount_of(Path("/home/you/f")) == dirs.Mount("/home", "nfs4", noexec=True)
    assert dirs.mount_of(Path("/home/me x/f")).kind == "xfs"
    assert dirs.mount_of(Path("/homes")).kind == "ext4"
    assert dirs.mount_of(Path("/home/y")).network
    assert not dirs.mount_of(Path("/x")).network


def test_no_candidate_at_all_lists_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dirs, "refusal", lambda path, tighten=True: "cannot be written (test)")
    with pytest.raises(ToolchainError) as caught:
        dirs.cache_dir()
    assert str(caught.value).count("cannot be written (test)") >= 3
    assert "Set TILEGYM_RS_CACHE_DIR" in str(caught.value)
