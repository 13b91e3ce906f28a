# SPDX-License-Identifier: MIT
"""From a specialization to machine code: front end, tileiras, and the store between them.

A look-up key (library build id, specialization text, architecture) names a digest; a digest (bytecode, architecture,
flags, tileiras version) names a cubin. A hit on the first runs neither the front end nor tileiras, and needs neither
on the machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import CompileError
from .store import Store
from .toolchain.toolkit import TILEIRAS_VERSION

if TYPE_CHECKING:
    from .library import Library

TIMEOUT_SECONDS = 300.0
"""A tileiras that runs longer is killed; the slowest known kernel takes 28 s."""
_FLAGS = ("--opt-level", "3")


def cubin(library: Library, token: int, arch: str) -> bytes:
    """Return the machine code of a specialization, from the store if it is there.

    One thread at a time works on a token; the others wait and take its result.

    Raises:
        CompileError: the front end or tileiras refused it, or tileiras is missing.
    """
    from .launch import spec_text

    text = spec_text(library, token)
    store = _store()
    key = _lookup_key(library, text, arch)
    with _single_flight(key):
        digest = store.digest_of(key)
        image = store.cubin(digest) if digest else None
        if image is None:
            program = emit(library, token, arch)
            image = assemble(program, arch, name=text)
            store.put_lookup(key, _digest(program, arch))
        return image


def copy_cubin(library: Library, token: int, arch: str, destination: Store) -> int:
    """Put a specialization's machine code, compiled if need be, into another store; returns its size in bytes."""
    from .launch import spec_text

    cubin(library, token, arch)
    return copy_stored(library, spec_text(library, token), arch, destination)


def copy_stored(library: Library, text: str, arch: str, destination: Store) -> int:
    """Put the machine code that the store has of a specialization's text into another store.

    Returns its size in bytes, 0 if the store has none.
    """
    store = _store()
    key = _lookup_key(library, text, arch)
    digest = store.digest_of(key)
    image = store.cubin(digest) if digest else None
    if digest is None or image is None:
        return 0
    destination.put_cubin(digest, image)
    destination.put_lookup(key, digest)
    return len(image)


def emit(library: Library, token: int, arch: str) -> bytes:
    """Return the Tile IR bytecode (13.4) of a specialization for `arch`; raises CompileError with the located text."""
    ffi = library.ffi
    out = ffi.new("uint8_t**")
    length = ffi.new("int64_t*")
    rc = int(library.lib.cutile_emit(token, arch.encode(), out, length))
    if rc:
        from .launch import spec_text

        raise CompileError(f"front end, {spec_text(library, token)} for {arch}: {library.last_error()}")
    try:
        return bytes(ffi.buffer(out[0], length[0]))
    finally:
        library.lib.cutile_free(out[0], length[0])


def bytecode(library: Library, token: int, arch: str) -> bytes:
    """Return what `emit` returns, from the store if it is there; raises CompileError."""
    from .launch import spec_text

    key = _sha256("bytecode", library.build_id, spec_text(library, token), arch)
    return stored_bytecode(key, lambda: emit(library, token, arch))


def stored_bytecode(key: str, front_end: Callable[[], bytes]) -> bytes:
    """Return the bytecode of a key, made by `front_end` and kept unless the store has it."""
    store = _store()
    with _single_flight(key):
        found = store.bytecode(key)
        if found is None:
            found = front_end()
            store.put_bytecode(key, found)
        return found


def assemble(bytecode: bytes, arch: str, *, name: str = "kernel", fresh: bool = False) -> bytes:
    """Return the cubin of a bytecode, through the store.

    Args:
        bytecode: Tile IR of either front end.
        arch: ``"sm_90"`` and so on.
        name: what an error message calls it.
        fresh: run tileiras even if the store has a result, and leave the store alone (tileiras is not deterministic
            for every kernel, so a comparison may want several results).

    Raises:
        CompileError: tileiras refused it (remembered), was killed after `TIMEOUT_SECONDS`, or is missing.
    """
    if fresh:
        return _run_tileiras(bytecode, arch, name)
    store = _store()
    digest = _digest(bytecode, arch)
    with _single_flight(digest):
        image = store.cubin(digest)
        if image is not None:
            return image
        refusal = store.refusal(digest)
        if refusal is not None:
            raise CompileError(f"{name} for {arch} was refused before, by the same tileiras: {refusal}")
        try:
            image = _run_tileiras(bytecode, arch, name)
        except _Refused as error:
            store.put_refusal(digest, str(error))
            raise
        store.put_cubin(digest, image)
        return image


def tileiras() -> Path:
    """Return the absolute path of the tileiras in use; raises ToolchainError listing what was tried."""
    from .toolchain.toolkit import find_toolkit

    return find_toolkit().tileiras


class _Refused(CompileError):
    """Tileiras ran and said no; the same bytecode would be refused again."""


def _run_tileiras(bytecode: bytes, arch: str, name: str) -> bytes:
    from .toolchain.env import tileiras_env

    tool = tileiras()
    with tempfile.TemporaryDirectory(prefix="tilegym-rs-") as folder:
        source, result = Path(folder, "kernel.bc"), Path(folder, "kernel.cubin")
        source.write_bytes(bytecode)
        command = [str(tool), "--gpu-name", arch, *_FLAGS, "-o", str(result), str(source)]
        process = subprocess.Popen(
            command,
            env=tileiras_env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired as error:
            _kill_group(process)
            raise CompileError(
                f"tileiras worked on {name} for {arch} for more than {TIMEOUT_SECONDS:.0f} s and was stopped; "
                "use a smaller tile"
            ) from error
        except BaseException:
            _kill_group(process)
            raise
        if process.returncode == 0 and result.is_file():
            return result.read_bytes()
        text = output.decode(errors="replace").strip() or "no message"
        if process.returncode < 0:
            raise CompileError(f"tileiras was killed by signal {-process.returncode} on {name} for {arch}: {text}")
        raise _Refused(f"tileiras (exit {process.returncode}) refused {name} for {arch}: {text}")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _lookup_key(library: Library, text: str, arch: str) -> str:
    return _sha256("lookup", library.build_id, text, arch, tileiras_tag())


def _digest(bytecode: bytes, arch: str) -> str:
    return _sha256("cubin", bytecode, arch, *_FLAGS, tileiras_tag())


def tileiras_tag() -> str:
    """Return the version of the tileiras in use, as keys have it."""
    # Only a toolkit that the user named can hold another version; asking it costs a process, so only then.
    if os.environ.get("TILEGYM_RS_TOOLKIT"):
        from .toolchain.toolkit import find_toolkit

        return find_toolkit().tileiras_version
    return TILEIRAS_VERSION


def _sha256(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def _store() -> Store:
    from .toolchain.dirs import store_dirs

    root, *also = store_dirs()
    return Store(root, also)


_flights: dict[str, tuple[threading.Lock, int]] = {}
_flights_lock = threading.Lock()


@contextlib.contextmanager
def _single_flight(key: str) -> Iterator[None]:
    with _flights_lock:
        lock, waiting = _flights.get(key, (threading.Lock(), 0))
        _flights[key] = (lock, waiting + 1)
    try:
        with lock:
            yield
    finally:
        with _flights_lock:
            lock, waiting = _flights[key]
            if waiting == 1:
                del _flights[key]
            else:
                _flights[key] = (lock, waiting - 1)


def _reset_after_fork() -> None:
    global _flights_lock
    _flights_lock = threading.Lock()
    _flights.clear()


os.register_at_fork(after_in_child=_reset_after_fork)
