# SPDX-License-Identifier: MIT
"""What a peer is: the implementation that ours is compared with, launch by launch and call by call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Protocol

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite


class PeerError(Exception):
    """The peer could not do what was asked: not installed, its worker died or took too long."""


class PeerRefused(PeerError):
    """The peer itself refused this call (an assertion or error of its own), so there is nothing to compare with."""


class PeerFault(PeerError):
    """The peer's kernel could not be carried out, or does something wrong: a fact about the peer, no failure of ours.

    Attributes:
        kind: of the execution's error (``"race"``, ``"out-of-bounds"``, ``"unsupported"`` ...), or ``"compile"``.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class PeerLaunch:
    """One kernel launch of the peer.

    Attributes:
        name: the kernel's name in the peer's source.
        grid: blocks in x, y, z.
        hints: compiler hints in force (occupancy, num_ctas, num_worker_warps).
        bytecode: its Tile IR, version 13.4.
        constants: compile-time constants by parameter name.
        arguments: what each argument was, in words.
        configurations: how many configurations the peer's tuner would have tried; 0 when it asks none. The first is
            taken here, since nothing is timed.
    """

    name: str
    grid: tuple[int, ...]
    hints: Mapping[str, Any]
    bytecode: bytes = field(repr=False)
    constants: Mapping[str, Any] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    configurations: int = 0


@dataclass(frozen=True)
class PeerRun:
    """One call of the peer, executed on the CPU.

    Attributes:
        outputs: the tensors to judge, as ``OpSuite.outputs`` names them: bits, dtype and strides are the peer's.
        launches: kernels launched, by name, in order.
        blocks: tile blocks of all launches together.
        approximate: operations whose approximate mode was executed exactly.
        modified: one line per argument that was changed and is not said to be (``OpSuite.in_place``).
    """

    outputs: tuple[Any, ...]
    launches: tuple[str, ...] = ()
    blocks: int = 0
    approximate: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


class Peer(Protocol):
    """The side that ours is compared with."""

    name: str

    def available(self) -> str | None:
        """Why this peer cannot be used here, None when it can. Imports neither torch nor the peer."""

    def launches(self, suite: OpSuite, case: Case, arch: str) -> tuple[PeerLaunch, ...]:
        """The launches of a case for ``arch``, without a GPU.

        Raises:
            PeerRefused: the peer raised on this call.
            PeerError: the peer's worker failed.
        """

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        """Run the call on the GPU its tensors are on, and return what the op returns.

        With ``tuned=False`` the peer may take any configuration at once: for numbers, not for times.
        """

    def execute(self, suite: OpSuite, case: Case, arch: str, seed: int) -> PeerRun:
        """Run a case on the CPU, each launch executed from its bytecode for ``arch``; inputs are those of ``seed``.

        Raises:
            PeerRefused: the peer raised on this call.
            PeerFault: a kernel of the peer's cannot be executed, or has a fault.
            PeerError: the peer's worker failed.
        """

    def observe(self, suite: OpSuite, call: Call, arch: str) -> dict[str, Any]:
        """Run the call once on the GPU, tuned, and say what it did, in JSON types.

        ``launches``: kernel, grid, hints, constants of each; ``tuning``: configurations, choice, seconds of each
        search; ``tileiras``: the SHA-256 of the assembler in use. A key is absent where the peer cannot say.
        """

    def facts(self) -> dict[str, Any]:
        """Versions and tools used so far, for the run's record."""

    def close(self) -> None:
        """Give back what the peer holds (its worker process); it starts again when asked again."""
