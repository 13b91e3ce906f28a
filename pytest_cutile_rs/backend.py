# SPDX-License-Identifier: MIT
"""The side under test, behind an interface so that the plugin's rules are tested without torch, cargo or a GPU."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import Any
from typing import Protocol

from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.pairs import given_hints
from tilegym_rs_backend.progress import Heartbeat

DEFAULT_ARCH = "sm_90"
OURS = "cutile_rs"


@dataclass(frozen=True)
class Device:
    """Where numbers are computed.

    Attributes:
        kind: torch's device name (``"cuda"``; ``"cpu"``: kernels are executed from their bytecode), or empty when
            the ops cannot run here.
        arch: of the GPU, empty without one.
        reason: why there is no GPU.
        timed: whether device time can be measured.
        name: of the GPU.
        uuid: of the GPU, the same in every process of the host.
    """

    kind: str
    arch: str = ""
    reason: str = ""
    timed: bool = False
    name: str = ""
    uuid: str = ""


@dataclass(frozen=True)
class Launch:
    """One kernel launch as the checks compare it; a peer's launch has the first four attributes too."""

    name: str
    grid: tuple[int, ...]
    hints: Mapping[str, Any]
    bytecode: bytes
    spec_text: str = ""
    constants: Mapping[str, Any] = field(default_factory=dict)


class Backend(Protocol):
    """What the plugin asks of the side under test."""

    def device(self) -> Device:
        """Where ops can run now; may initialise CUDA, so it is asked for at the first item and not before."""

    def prepare(self) -> None:
        """Registers the backend; called once, before the first item."""

    def kind(self, op: str) -> str:
        """Which kernels of this side serve the op: ``"native"``, ``"ported"`` (translated from cuTile Python), or
        ``""``: there are none, and only cuTile Python's side is looked at."""

    def ready(self, pairs: Iterable[tuple[OpSuite, Case]], arch: str, say: Callable[[str], None]) -> None:
        """Build what these cases need, in one go and before the first of them; a failure shows at its case.

        It may take minutes: ``say`` takes lines of progress, and what is written to standard error is seen.
        """

    def launches(self, suite: OpSuite, case: Case, arch: str) -> tuple[Launch, ...]:
        """The launches of a case for ``arch``, compiled to bytecode without running anything."""

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        """Runs the op; with ``tuned=False`` in its default configuration: for numbers, not for times."""

    def observe(self, suite: OpSuite, case: Case, call: Call, arch: str) -> dict[str, Any]:
        """Runs the op once on the GPU, tuned, and says what it did, in JSON types.

        ``launches`` and ``tuning`` as in `Peer.observe`, ``launches`` left out where unknown; a search of a native op
        also has ``tried``, each candidate with its predicted and measured microseconds or the reason it was dropped.
        """

    def refuse(self, suite: OpSuite, call: Call, arch: str) -> None:
        """Runs the op without launching; a call that must be refused raises here."""

    def assemble(self, bytecode: bytes, arch: str, *, fresh: bool = False) -> bytes:
        """Machine code of a bytecode, through the cubin store; ``fresh`` runs tileiras again."""

    def facts(self) -> dict[str, Any]:
        """Build id, tileiras and the like for the report, as far as they are known without work."""


def kind_of(backend: Backend, suite: OpSuite) -> str:
    """Return which kernels serve a suite: what it says of itself, else what the backend says of its op."""
    return "native" if suite.native else backend.kind(suite.name)


class CutileRsBackend:
    """`tilegym_rs_backend`, through TileGym's dispatcher."""

    def __init__(self, variant: str = "auto") -> None:
        self._device: Device | None = None
        self._variant = variant

    def prepare(self) -> None:
        """Registers `cutile_rs`, and stops TileGym from answering with another backend."""
        os.environ["DISABLE_FALLBACK"] = "1"
        os.environ["TILEGYM_RS_VARIANT"] = self._variant
        from tilegym_rs_backend import registration

        registration.register()

    def kind(self, op: str) -> str:
        """See `Backend`: what the registration says."""
        from tilegym_rs_backend.registration import kind

        return kind(op)

    def device(self) -> Device:
        """The current CUDA device, or the reason there is none."""
        if self._device is None:
            self._device = _find_device()
        return self._device

    def ready(self, pairs: Iterable[tuple[OpSuite, Case]], arch: str, say: Callable[[str], None]) -> None:
        """See `Backend`: the library of the native kernels, then one library of all translated ones."""
        from tilegym_rs_backend.errors import TilegymRsError
        from tilegym_rs_backend.library import get_library

        # A suite with kernels of its own builds them itself.
        pairs = [(suite, case) for suite, case in pairs if not suite.native]
        translated = [(suite, case) for suite, case in pairs if self.kind(suite.name) == "ported"]
        if len(translated) < len(pairs):
            with contextlib.suppress(TilegymRsError):
                get_library()
        if translated:
            self._translate(translated, arch, say)

    def _translate(self, pairs: Sequence[tuple[OpSuite, Case]], arch: str, say: Callable[[str], None]) -> None:
        from tilegym_rs_backend.port.launches import case_launches
        from tilegym_rs_backend.port.redirect import redirect

        found = []
        heartbeat = Heartbeat(say)
        for number, (suite, case) in enumerate(pairs, 1):
            with contextlib.suppress(Exception):
                found += case_launches(suite, case, suite.arch_for(arch))
            heartbeat.beat(f"captured the launches of {number} of {len(pairs)} cases of ported ops")
        if found:
            redirect().kernels.prepare(found, heartbeat.beat)

    def launches(self, suite: OpSuite, case: Case, arch: str) -> tuple[Launch, ...]:
        """See `Backend`; the inputs are uninitialised memory, on a CPU so that addresses have a real alignment."""
        from tilegym_rs_backend import artifacts
        from tilegym_rs_backend.target import record

        call = suite.inputs(dataclasses.replace(case, data="empty"), suite.recorded_on, 0)
        with record(arch) as recorded:
            suite.call(call, backend=OURS)
        return tuple(
            Launch(
                name=launch.kernel,
                grid=tuple(launch.grid),
                hints=dict(launch.hints),
                bytecode=artifacts.bytecode(launch.library, launch.token, arch),
                spec_text=launch.spec_text,
                constants=dict(launch.constants),
            )
            for launch in recorded
        )

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        """See `Backend`."""
        from tilegym_rs_backend import tune
        from tilegym_rs_backend.port.installed import backend_set

        with backend_set(OURS), _arch_of(suite), contextlib.nullcontext() if tuned else tune.off():
            return suite.call(call, backend=OURS)

    def observe(self, suite: OpSuite, case: Case, call: Call, arch: str) -> dict[str, Any]:
        """See `Backend`."""
        if kind_of(self, suite) == "ported":
            return self._observe_ported(suite, call, arch)
        import torch

        from tilegym_rs_backend import tune

        tune.forget()  # what an earlier case of this bucket was answered is read from the store again, and seen
        with tune.questions() as asked:
            self.call(suite, call)
        found: dict[str, Any] = {"tuning": [each.choice.report() for each in asked if each.choice is not None]}
        with contextlib.suppress(Exception), tune.standing_for(torch.cuda.current_device()):
            found["launches"] = [
                {
                    "kernel": launch.name,
                    "grid": list(launch.grid),
                    "hints": given_hints(launch.hints),
                    "constants": dict(launch.constants),
                }
                for launch in self.launches(suite, case, arch)
            ]
        return found

    def _observe_ported(self, suite: OpSuite, call: Call, arch: str) -> dict[str, Any]:
        """TileGym's tuner chooses, and remembers it by its own key: only the call itself shows what was chosen."""
        from pytest_cutile_rs.peers.observe import observing
        from tilegym_rs_backend.port.redirect import redirect

        with observing(arch, lambda launch: redirect().kernels.entry(launch).name) as seen:
            self.call(suite, call)
        return seen

    def refuse(self, suite: OpSuite, call: Call, arch: str) -> None:
        """See `Backend`."""
        from tilegym_rs_backend.target import record

        with record(arch):
            suite.call(call, backend=OURS)

    def assemble(self, bytecode: bytes, arch: str, *, fresh: bool = False) -> bytes:
        """See `Backend`."""
        from tilegym_rs_backend import artifacts

        return artifacts.assemble(bytecode, arch, fresh=fresh)

    def facts(self) -> dict[str, Any]:
        """Library build id and toolkit, or why they are not known."""
        found: dict[str, Any] = {}
        with contextlib.suppress(Exception):  # facts decorate a report; they must not fail a run
            from pytest_cutile_rs.peers.tileiras import file_hash
            from tilegym_rs_backend.toolchain.toolkit import find_toolkit

            found["tileiras"] = find_toolkit().label
            found["tileiras_sha256"] = file_hash(find_toolkit().tileiras)
        with contextlib.suppress(Exception):
            from tilegym_rs_backend import library

            loaded = library.loaded()  # get_library() would build one
            found["library_build_id"] = loaded.build_id if loaded else None
        return found


@contextlib.contextmanager
def _arch_of(suite: OpSuite) -> Iterator[None]:
    """Let what is executed on a CPU be compiled for an architecture that has the op."""
    before = os.environ.get("TILEGYM_RS_ARCH")
    if suite.min_arch:
        os.environ["TILEGYM_RS_ARCH"] = suite.arch_for(before or DEFAULT_ARCH)
    try:
        yield
    finally:
        os.environ.pop("TILEGYM_RS_ARCH", None)
        if before is not None:
            os.environ["TILEGYM_RS_ARCH"] = before


def _find_device() -> Device:
    try:
        import torch
    except ImportError as error:
        return Device("", reason=f"torch cannot be imported: {error}")
    if not torch.cuda.is_available():
        return Device("cpu", reason=_no_cuda(torch))
    major, minor = torch.cuda.get_device_capability()
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    uuid = str(getattr(properties, "uuid", ""))
    return Device("cuda", arch=f"sm_{major}{minor}", timed=True, name=properties.name, uuid=uuid)


def _no_cuda(torch: Any) -> str:
    if torch.version.cuda is None:
        return "no CUDA device: this torch is a CPU build"
    return "no CUDA device: torch.cuda.is_available() is False (no GPU, no driver, or CUDA_VISIBLE_DEVICES is empty)"
