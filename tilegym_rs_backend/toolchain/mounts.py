# SPDX-License-Identifier: MIT
"""The filesystem a path lies on, and whether code may be loaded from a directory there."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/mounts")
_OTHERS_WRITE = 0o022

# flock and rename across hosts are not dependable there, and cargo itself skips its lock on NFS.
_NETWORK_FILESYSTEMS = (
    " nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph glusterfs panfs wekafs afs 9p orangefs pvfs2 ocfs2 gfs2 "
)
_NETWORK_FUSE = ("fuse.sshfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.beegfs", "fuse.juicefs")


@dataclass(frozen=True)
class Mount:
    """The filesystem a path lives on.

    Attributes:
        point: where it is mounted.
        kind: its type as the kernel names it (``ext4``, ``nfs4``, ``fuse.sshfs``).
        noexec: shared libraries cannot be mapped from it.
    """

    point: str
    kind: str
    noexec: bool

    @property
    def network(self) -> bool:
        """Whether other hosts may see the same files."""
        return f" {self.kind} " in _NETWORK_FILESYSTEMS or self.kind in _NETWORK_FUSE


def mount_of(path: Path) -> Mount:
    """Return the mount of ``path`` (it need not exist). Unknown when ``/proc/mounts`` cannot be read."""
    target = os.path.realpath(path)
    best = Mount("/", "unknown", False)
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return best
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        point = fields[1].replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best.point):
            best = Mount(point, fields[2], "noexec" in fields[3].split(","))
    return best


def _whose(path: Path, allowed: set[int]) -> str | None:
    # A link in a folder that all may write to belongs to whoever can turn it elsewhere: it counts beside its target.
    for status in (path.lstat(), path.stat()):
        if status.st_uid not in allowed:
            return f"belongs to uid {status.st_uid}, not to this process's uid {os.geteuid()}"
    return None


def _directory(path: Path, allowed: set[int]) -> tuple[str | None, int]:
    """Return why this is no directory of one of these users, or ``None``, and its mode; raises OSError."""
    mode = path.stat().st_mode
    foreign = _whose(path, allowed)
    return (foreign if stat.S_ISDIR(mode) else "is not a directory"), mode


def _writable(mode: int) -> str:
    return f"can be written by others (mode {mode & 0o777:o}; `chmod go-w` it)"


def refusal(path: Path, *, tighten: bool = True) -> str | None:
    """Make ``path`` a private directory and try it out; return why it cannot be used, or ``None``.

    ``tighten`` takes other users' write permission away instead of refusing such a directory. The owner is checked
    because code from this directory is loaded into the process; the write is a real one because permission bits say
    nothing on read-only mounts, full disks and squashed network shares.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        why, mode = _directory(path, {os.geteuid()})
    except OSError as error:
        return f"cannot be created ({error.strerror or error})"
    if why is not None:
        return why
    if mode & _OTHERS_WRITE:
        if not tighten:
            return _writable(mode)
        try:
            path.chmod(0o700)
        except OSError as error:
            return f"others can write to it and its mode cannot be changed ({error.strerror or error})"
    try:
        with tempfile.NamedTemporaryFile(dir=path, prefix=".probe-") as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        return f"cannot be written ({error.strerror or error})"
    return _no_code(path)


def reading_refusal(path: Path) -> str | None:
    """Return why code may not be loaded from a directory that is only read, or ``None``; nothing is written.

    One that root prepared for everybody is as good as one's own.
    """
    try:
        why, mode = _directory(path, {os.geteuid(), 0})
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    if why is not None:
        return why
    if mode & _OTHERS_WRITE:
        return _writable(mode)
    if not os.access(path, os.R_OK | os.X_OK):
        return "cannot be read (Permission denied)"
    return _no_code(path)


def _no_code(path: Path) -> str | None:
    if mount_of(path).noexec:
        return "is on a filesystem mounted noexec, so the built library could not be loaded from it"
    return None
