# SPDX-License-Identifier: MIT
"""Where this package may write: the user's cache directory, and a local one for locks and cargo's target folder."""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import ToolchainError

CACHE_VARIABLE = "TILEGYM_RS_CACHE_DIR"

# flock and rename across hosts are not dependable there, and cargo itself skips its lock on NFS.
_NETWORK_FILESYSTEMS = (
    " nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph glusterfs panfs wekafs afs 9p orangefs pvfs2 ocfs2 gfs2 "
)


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
        return f" {self.kind} " in _NETWORK_FILESYSTEMS or self.kind in ("fuse.sshfs", "fuse.ceph", "fuse.glusterfs")


def mount_of(path: Path) -> Mount:
    """Return the mount of ``path`` (it need not exist). Unknown when ``/proc/mounts`` cannot be read."""
    target = os.path.realpath(path)
    best = Mount("/", "unknown", False)
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
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


def refusal(path: Path, *, tighten: bool = True) -> str | None:
    """Make ``path`` a private directory and try it out; return why it cannot be used, or ``None``.

    ``tighten`` takes other users' write permission away instead of refusing such a directory. The owner is checked
    because code from this directory is loaded into the process; the write is a real one because permission bits say
    nothing on read-only mounts, full disks and squashed network shares.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        return f"cannot be created ({error.strerror or error})"
    if not stat.S_ISDIR(status.st_mode):
        return "is not a directory"
    if status.st_uid != os.geteuid():
        return f"belongs to uid {status.st_uid}, not to this process's uid {os.geteuid()}"
    if status.st_mode & 0o022:
        if not tighten:
            return f"can be written by others (mode {status.st_mode & 0o777:o}; `chmod go-w` it)"
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
    if mount_of(path).noexec:
        return "is on a filesystem mounted noexec, so the built library could not be loaded from it"
    return None


def _private_temporary() -> Iterator[Path]:
    name = f"tilegym-rs-{os.geteuid()}"
    for parent in dict.fromkeys((tempfile.gettempdir(), "/var/tmp", "/tmp", "/dev/shm")):
        yield Path(parent) / name


def _user_cache() -> Path:
    try:
        from platformdirs import user_cache_path
    except ImportError:  # the bootstrap runs before anything is installed
        base = os.environ.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")
        return Path(base) / "tilegym-rs"
    return Path(user_cache_path("tilegym-rs", appauthor=False))


def cache_dir() -> Path:
    """Return the directory for everything this package keeps: mode 0700, ours, writable, not mounted noexec.

    ``TILEGYM_RS_CACHE_DIR`` when set, and then no other; else the user's cache directory; else a private folder under
    the temporary directory with one warning.

    Raises:
        ToolchainError: ``TILEGYM_RS_CACHE_DIR`` cannot be used, or no candidate can.
    """
    environment = (CACHE_VARIABLE, "XDG_CACHE_HOME", "HOME", "TMPDIR")
    return _choose_cache(tuple(os.environ.get(name, "") for name in environment), os.geteuid())


@lru_cache(maxsize=16)
def _choose_cache(environment: tuple[str, ...], _uid: int) -> Path:
    explicit = environment[0].strip()
    if explicit:
        path = Path(explicit).expanduser().absolute()
        why = refusal(path, tighten=False)
        if why is not None:
            raise ToolchainError(f"{CACHE_VARIABLE}={path} {why}. Set it to a directory of your own, or unset it.")
        return path
    rejected: list[str] = []
    for path in (_user_cache(), *_private_temporary()):
        why = refusal(path)
        if why is None:
            if rejected:
                warnings.warn(
                    f"tilegym-rs keeps its builds in {path}, because {rejected[0]}. "
                    f"Set {CACHE_VARIABLE} to a directory that stays.",
                    RuntimeWarning,
                    stacklevel=3,
                )
            return path
        rejected.append(f"{path} {why}")
    tried = "\n".join(f"  {line}" for line in rejected)
    raise ToolchainError(f"no directory to keep builds in; tried:\n{tried}\nSet {CACHE_VARIABLE} to a writable one.")


def local_dir() -> Path:
    """Return the directory for locks and cargo's target folder: the cache, or a local one when that is shared.

    Raises:
        ToolchainError: the cache is on a network filesystem and no local directory can be written.
    """
    cache = cache_dir()
    if not mount_of(cache).network:
        return cache
    return _choose_local(str(cache), os.environ.get("TMPDIR", ""))


@lru_cache(maxsize=16)
def _choose_local(cache: str, _environment: str) -> Path:
    rejected: list[str] = []
    for path in _private_temporary():
        why = "is on a network filesystem" if mount_of(path).network else refusal(path)
        if why is None:
            return path
        rejected.append(f"{path} {why}")
    tried = "\n".join(f"  {line}" for line in rejected)
    raise ToolchainError(
        f"the cache {cache} is on a network filesystem and no local directory for locks was found; tried:\n{tried}\n"
        "Set TMPDIR to a directory on a local disk."
    )


def prefix_dir() -> Path:
    """Return the folder that holds the private prefixes, one subfolder per lock."""
    return cache_dir() / "prefix"


def store_dir() -> Path:
    """Return the folder of the cubin store."""
    return cache_dir() / "store"


def tune_dir() -> Path:
    """Return the folder of what the tuner chose and planned."""
    return cache_dir() / "tune"


def build_dir() -> Path:
    """Return the folder of the published libraries."""
    return cache_dir() / "build"


def target_dir() -> Path:
    """Return what holds cargo's target folders, one per toolkit; the lazy build, clippy and the tests share it."""
    return local_dir() / "target"


def lock_dir() -> Path:
    """Return the folder of the lock files, made if missing."""
    path = local_dir() / "locks"
    path.mkdir(mode=0o700, exist_ok=True)
    return path
