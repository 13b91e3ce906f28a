# SPDX-License-Identifier: MIT
"""The peer: TileGym's own cuTile Python implementation of an op."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import threading
from collections.abc import Iterator
from typing import Any

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.peers.base import PeerError
from pytest_cutile_rs.peers.base import PeerFault
from pytest_cutile_rs.peers.base import PeerLaunch
from pytest_cutile_rs.peers.base import PeerRefused
from pytest_cutile_rs.peers.base import PeerRun
from pytest_cutile_rs.peers.process import WorkerProcess
from pytest_cutile_rs.peers.tileiras import SharedTileiras
from pytest_cutile_rs.peers.tileiras import share_tileiras
from pytest_cutile_rs.peers.tileiras import tileiras_in_use
from pytest_cutile_rs.peers.wire import unpack
from pytest_cutile_rs.peers.worker import Execute
from pytest_cutile_rs.peers.worker import Failure
from pytest_cutile_rs.peers.worker import Request

TIMEOUT_S = 300.0
_WORKER_ENVIRONMENT: dict[str, str | None] = {
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",  # it works beside this process
    "DISABLE_FALLBACK": "1",
    "CUTILE_TUTORIALS_BACKEND": None,
    "TILEGYM_DISABLE_AUTOTUNE": None,
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "CUDA_HOME": None,
    "CUDA_PATH": None,
    "CUDA_ROOT": None,
}


class CutilePython:
    """Captures and executes cuTile Python's launches in a worker process, and runs its ops on a GPU in this one.

    Args:
        timeout_s: how long the worker may take for one case; its first one imports torch and TileGym.
    """

    name = "cutile-python"

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._worker = WorkerProcess("pytest_cutile_rs.peers.worker", _WORKER_ENVIRONMENT, timeout_s)
        self._known: dict[tuple[str, str, str], tuple[PeerLaunch, ...] | PeerRefused] = {}
        self._lock = threading.RLock()
        self._shared: SharedTileiras | None = None

    def available(self) -> str | None:
        """See ``Peer``."""
        from tilegym_rs_backend.errors import ToolchainError
        from tilegym_rs_backend.port.capture import check_cuda_tile

        try:
            check_cuda_tile()
            importlib.metadata.version("tilegym")
        except ToolchainError as error:
            return str(error)
        except importlib.metadata.PackageNotFoundError:
            return "TileGym is not installed. Install it with: pip install 'tilegym-rs[ported]'"
        return None

    def launches(self, suite: OpSuite, case: Case, arch: str) -> tuple[PeerLaunch, ...]:
        """See ``Peer``; each case is captured once per arch."""
        with self._lock:
            key = (suite.name, case.id, arch)
            if key not in self._known:
                self._known[key] = self._capture(suite, case, arch)
            found = self._known[key]
        if isinstance(found, PeerRefused):
            raise found
        return found

    def _capture(self, suite: OpSuite, case: Case, arch: str) -> tuple[PeerLaunch, ...] | PeerRefused:
        reply = self._worker.ask(Request(type(suite).__module__, suite.name, case, arch))
        if not isinstance(reply, Failure):
            return tuple(PeerLaunch(**launch) for launch in reply)
        what = f"{suite.name}[{case.id}] for {arch}"
        if reply.refused:
            return PeerRefused(f"cuTile Python refused {what}: {reply.message}")
        raise PeerError(f"cuTile Python's launches of {what} could not be captured: {reply.message}\n{reply.trace}")

    def execute(self, suite: OpSuite, case: Case, arch: str, seed: int) -> PeerRun:
        """See ``Peer``; a tuner gets the first configuration that it would have tried."""
        reply = self._worker.ask(Execute(type(suite).__module__, suite.name, case, arch, seed))
        if not isinstance(reply, Failure):
            return PeerRun(
                tuple(map(unpack, reply.outputs)), reply.launches, reply.blocks, reply.approximate, reply.modified
            )
        what = f"{suite.name}[{case.id}] for {arch}"
        if reply.kind:
            raise PeerFault(reply.kind, f"cuTile Python's {what}, executed on the CPU: {reply.message}")
        if reply.refused:
            raise PeerRefused(f"cuTile Python refused {what}: {reply.message}")
        raise PeerError(f"cuTile Python's {what} could not be executed: {reply.message}\n{reply.trace}")

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        """See ``Peer``. The first call makes cuTile Python assemble with our tileiras, for the rest of the process."""
        import torch

        if not torch.cuda.is_available():
            raise PeerError("cuTile Python runs its kernels on a GPU only")
        self.share_tileiras()
        with _backend("cutile"), contextlib.nullcontext() if tuned else _untuned():
            return suite.call(call, backend="cutile")

    def observe(self, suite: OpSuite, call: Call, arch: str) -> dict[str, Any]:
        """See ``Peer``."""
        from pytest_cutile_rs.peers.observe import observing

        self.share_tileiras()
        with observing(arch) as seen:
            self.call(suite, call)
        return seen | {"tileiras": tileiras_in_use()}

    def share_tileiras(self) -> SharedTileiras:
        """Make cuTile Python use the tileiras that we use, once.

        Raises:
            ToolchainError: no toolkit was found.
            PeerError: this cuda-tile cannot be told.
        """
        from tilegym_rs_backend.toolchain.dirs import cache_dir
        from tilegym_rs_backend.toolchain.toolkit import find_toolkit

        with self._lock:
            if self._shared is None:
                toolkit = find_toolkit()
                self._shared = share_tileiras(toolkit.tileiras, toolkit.tileiras_version, cache_dir() / "peer")
            return self._shared

    def facts(self) -> dict[str, Any]:
        """See ``Peer``."""
        found: dict[str, Any] = {"peer": self.name}
        for package in ("cuda-tile", "tilegym"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                found[package] = importlib.metadata.version(package)
        if self._shared is not None:
            found["tileiras"] = self._shared.facts()
        return found

    def close(self) -> None:
        """See ``Peer``."""
        self._worker.close()
        with self._lock:
            if self._shared is not None:
                self._shared.undo()
                self._shared = None


def _untuned() -> contextlib.AbstractContextManager[None]:
    from tilegym_rs_backend.port.untuned import untuned

    return untuned()


@contextlib.contextmanager
def _backend(name: str) -> Iterator[None]:
    """Set TileGym's backend and forbid its fallbacks, for the block; ops that call ops follow the backend set."""
    import tilegym

    backend, fallback = tilegym.get_current_backend(), os.environ.get("DISABLE_FALLBACK")
    tilegym.set_backend(name)
    os.environ["DISABLE_FALLBACK"] = "1"
    try:
        yield
    finally:
        tilegym.set_backend(backend)
        if fallback is None:
            os.environ.pop("DISABLE_FALLBACK", None)
        else:
            os.environ["DISABLE_FALLBACK"] = fallback
