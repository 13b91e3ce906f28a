# SPDX-License-Identifier: MIT
from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.toolchain import dirs
from tilegym_rs_backend.toolchain import mounts


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
    assert mounts.refusal(shared) is None
    assert stat.S_IMODE(shared.stat().st_mode) == 0o700


def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = tmp_path.stat().st_uid
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    assert f"belongs to uid {owner}" in str(mounts.refusal(tmp_path))


def test_a_noexec_filesystem_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "mount_of", lambda path: mounts.Mount("/", "tmpfs", noexec=True))
    assert "noexec" in str(mounts.refusal(tmp_path))
    assert "noexec" in str(mounts.reading_refusal(tmp_path))


def test_on_a_network_filesystem_locks_and_target_go_to_a_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = dirs.mount_of
    cache = tmp_path / ".cache" / "tilegym-rs"
    shared = mounts.Mount("/home", "nfs4", noexec=False)
    monkeypatch.setattr(dirs, "mount_of", lambda path: shared if path == cache else real(path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert dirs.cache_dir() == cache
    assert dirs.local_dir().parent == tmp_path
    assert dirs.lock_dir().parent == dirs.target_dir().parent == dirs.local_dir()
    assert dirs.build_dir().parent == cache


def test_mounts_are_read_with_their_longest_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a / ext4 rw 0 0\nb /home nfs4 rw,noexec 0 0\nc /home/me\\040x xfs rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **_: text)
    assert mounts.mount_of(Path("/home/you/f")) == mounts.Mount("/home", "nfs4", noexec=True)
    assert mounts.mount_of(Path("/home/me x/f")).kind == "xfs"
    assert mounts.mount_of(Path("/homes")).kind == "ext4"
    assert mounts.mount_of(Path("/home/y")).network
    assert not mounts.mount_of(Path("/x")).network


def test_no_candidate_at_all_lists_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dirs, "refusal", lambda path, tighten=True: "cannot be written (test)")
    with pytest.raises(ToolchainError) as caught:
        dirs.cache_dir()
    assert str(caught.value).count("cannot be written (test)") >= 3
    assert "Set TILEGYM_RS_CACHE_DIR" in str(caught.value)


def test_a_link_that_somebody_else_may_turn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder that all may write to, its owner can point it elsewhere after it was checked."""
    (tmp_path / "mine").mkdir(mode=0o700)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "mine")
    assert mounts.refusal(link) is None
    theirs = link.lstat().st_uid + 1
    real = Path.lstat
    monkeypatch.setattr(Path, "lstat", lambda self: SimpleNamespace(st_uid=theirs) if self == link else real(self))
    assert f"belongs to uid {theirs}" in str(mounts.refusal(link))
    assert f"belongs to uid {theirs}" in str(mounts.reading_refusal(link))


def test_the_chain_writes_to_its_first_and_only_reads_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bug report X7."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir(mode=0o755)
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", f"{tmp_path / 'own'}:{tmp_path / 'one'}:{tmp_path / 'two'}")
    assert dirs.cache_dirs() == (tmp_path / "own", tmp_path / "one", tmp_path / "two")
    assert dirs.store_dirs() == [path / "store" for path in dirs.cache_dirs()]
    assert dirs.lock_dir().parent == tmp_path / "own"
    assert list((tmp_path / "one").iterdir()) == []
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", f":{tmp_path / 'one'}")
    assert dirs.cache_dirs() == (tmp_path / ".cache" / "tilegym-rs", tmp_path / "one")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.rmdir(), "cannot be read (No such file or directory)"),
        (lambda path: path.chmod(0o777), "can be written by others"),
        (lambda path: (path.rmdir(), path.touch()), "is not a directory"),
    ],
)
def test_code_is_not_read_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], object], reason: str
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    damage(shared)
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", f"{tmp_path / 'own'}:{shared}")
    with pytest.raises(ToolchainError) as caught:
        dirs.cache_dirs()
    assert f"{shared}, named in TILEGYM_RS_CACHE_DIR to be read, {reason}" in str(caught.value)


def test_roots_directories_are_read_and_a_strangers_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    owner = tmp_path.stat().st_uid
    allowed = owner == 0
    assert (mounts.reading_refusal(tmp_path) is None) == allowed
    real = Path.stat
    monkeypatch.setattr(Path, "stat", lambda self, **kw: SimpleNamespace(st_uid=777, st_mode=real(self).st_mode, **kw))
    assert "belongs to uid 777" in str(mounts.reading_refusal(tmp_path))


OFF = """
import os
from tilegym_rs_backend.toolchain import dirs
made = dirs.cache_dir()
assert dirs.cache_dir() == made and made.is_dir(), made
(made / "store").mkdir()
pid = os.fork()
if pid == 0:
    raise SystemExit(0 if dirs.cache_dir() != made else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert made.is_dir(), "a child that ends does not take its parent's folder along"
print(made)
"""


def test_the_cache_can_be_switched_off(tmp_path: Path) -> None:
    """Bug report X7: nothing stays, the child's folder included."""
    environment = {**os.environ, "TILEGYM_RS_CACHE_DIR": "off", "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", OFF], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).parent == tmp_path
    assert [path for path in tmp_path.iterdir() if path.name.startswith("tilegym-rs")] == []


NOBODY = """
import os, sys, warnings
from tilegym_rs_backend.toolchain import dirs
os.setuid(int(sys.argv[1]))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found = dirs.cache_dir(), dirs.cache_dir()
assert len(caught) == 1, caught
print(found[0], caught[0].message)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_without_a_home_gets_a_private_folder_and_one_warning(tmp_path: Path) -> None:
    """Bug report A6: `HOME=/` and a random uid, as in many containers."""
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    for folder in (tmp_path, *tmp_path.parents[:-1]):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    environment = {**os.environ, "HOME": "/", "TMPDIR": str(shared)}
    done = subprocess.run(
        [sys.executable, "-c", NOBODY, "23456"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{shared / 'tilegym-rs-23456'} tilegym-rs keeps its builds in")
    assert "/.cache/tilegym-rs cannot be created (Permission denied)" in done.stdout
    private = shared / "tilegym-rs-23456"
    assert (private.stat().st_uid, stat.S_IMODE(private.stat().st_mode)) == (23456, 0o700)
    assert "belongs to uid 23456" in str(mounts.refusal(private)), "and it is of no use to anybody else"
