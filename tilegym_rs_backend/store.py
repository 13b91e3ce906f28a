# SPDX-License-Identifier: MIT
"""The cubin store on disk: look-up key -> digest -> cubin, each file published by one rename and checked when read.

Two levels, because many look-up keys (library builds, moved source lines) give the same machine code, and because a
hit must need neither the front end nor tileiras. Layout under the store's root:
`lookup/<k>/<key>` holds a digest, `cubins/<d>/<digest>` a cubin behind a header with its hash, `refused/<d>/<digest>`
the error of a bytecode that tileiras refused. `bytecode/<k>/<key>` holds what a front end gave, for executing on a CPU.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path

from . import atomic

_MAGIC = b"TGRS1\n"
_HASH_BYTES = 32


class Store:
    """A store rooted at one directory; many processes may share it. I/O errors on writing are soft: a cold start costs
    time, never a failure.

    Attributes:
        root: what is written to, and read first.
        also: further stores, which are only read.
    """

    def __init__(self, root: Path, also: Sequence[Path] = ()) -> None:
        self.root = root
        self.also = tuple(also)

    def digest_of(self, lookup_key: str) -> str | None:
        """Return the digest a look-up key stands for, None when unknown."""
        text = self._read("lookup", lookup_key)
        return text.decode(errors="replace").strip() if text else None

    def cubin(self, digest: str) -> bytes | None:
        """Return the machine code of a digest; a corrupt file is removed and counts as absent."""
        return self._checked("cubins", digest)

    def bytecode(self, key: str) -> bytes | None:
        """Return what a front end gave for a key; a corrupt file is removed and counts as absent."""
        return self._checked("bytecode", key)

    def refusal(self, digest: str) -> str | None:
        """Return why tileiras refused this digest's bytecode, None when it did not."""
        text = self._read("refused", digest)
        return text.decode(errors="replace") if text else None

    def put_lookup(self, lookup_key: str, digest: str) -> None:
        """Record what a look-up key stands for."""
        self._write("lookup", lookup_key, digest.encode())

    def put_cubin(self, digest: str, cubin: bytes) -> None:
        """Record a digest's machine code."""
        self._write("cubins", digest, _MAGIC + hashlib.sha256(cubin).digest() + cubin)

    def put_bytecode(self, key: str, bytecode: bytes) -> None:
        """Record what a front end gave for a key."""
        self._write("bytecode", key, _MAGIC + hashlib.sha256(bytecode).digest() + bytecode)

    def put_refusal(self, digest: str, message: str) -> None:
        """Remember that tileiras refused this digest's bytecode."""
        self._write("refused", digest, message.encode())

    def _checked(self, kind: str, key: str) -> bytes | None:
        head = len(_MAGIC) + _HASH_BYTES
        for path in self._paths(kind, key):
            with contextlib.suppress(OSError):
                blob = path.read_bytes()
                payload = blob[head:]
                if blob[: len(_MAGIC)] == _MAGIC and hashlib.sha256(payload).digest() == blob[len(_MAGIC) : head]:
                    return payload
                if path.is_relative_to(self.root):
                    path.unlink(missing_ok=True)
        return None

    def _paths(self, kind: str, key: str) -> list[Path]:
        return [root / kind / key[:2] / key for root in (self.root, *self.also)]

    def _read(self, kind: str, key: str) -> bytes | None:
        for path in self._paths(kind, key):
            with contextlib.suppress(OSError):
                return path.read_bytes()
        return None

    def _write(self, kind: str, key: str, data: bytes) -> None:
        atomic.keep(self._paths(kind, key)[0], data)
