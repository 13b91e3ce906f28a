# SPDX-License-Identifier: MIT
"""Numbers: our results against a reference of higher precision, with cuTile Python's errors beside ours.

With a GPU both sides run there. Without one both are executed on the CPU from their bytecode, and an op that has no
Rust kernel yet is judged by cuTile Python's side alone.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.backend import Backend
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.backend import kind_of
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks import judge as judging
from pytest_cutile_rs.checks.arguments import copied
from pytest_cutile_rs.checks.arguments import modified
from pytest_cutile_rs.checks.guard import Bands
from pytest_cutile_rs.checks.guard import guarded
from pytest_cutile_rs.checks.judge import Judged
from pytest_cutile_rs.checks.judge import judge
from pytest_cutile_rs.gpus import out_of_memory
from pytest_cutile_rs.peers.base import Peer
from pytest_cutile_rs.peers.base import PeerFault
from pytest_cutile_rs.peers.base import PeerRun
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NO_KERNEL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import PEER_ONLY
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.size import GPU
from pytest_cutile_rs.size import size_of

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Theirs:
    """What cuTile Python did: its run, or in words why there is none."""

    run: PeerRun | None = None
    note: str = ""
    kind: str = ""


def check(
    backend: Backend,
    peer: Callable[[], Peer],
    suite: OpSuite,
    case: Case,
    device: Device,
    arch: str,
    seed: int,
    alone: bool = True,
) -> CheckResult:
    """Runs one case, and says whether its numbers are right.

    A refusal case needs no device and no peer. Everything else is NOT-RUN without a device.

    Args:
        alone: nobody else uses the GPU; else a peer without memory raises, since that says nothing about the peer.
    """
    kind = kind_of(backend, suite)
    if case.raises:
        return _refusal(backend, suite, case, arch) if kind else _result(case, NOT_RUN, NO_KERNEL)
    if not device.kind:
        return _result(case, NOT_RUN, device.reason)
    if device.kind == "cpu" and size_of(suite, case) == GPU:
        return _result(case, NOT_RUN, f"too large to execute on a CPU; {device.reason}")
    if kind:
        return _both(backend, kind, peer(), suite, case, device.kind, arch, seed, alone)
    if device.kind != "cpu":
        return _result(case, NOT_RUN, NO_KERNEL)
    return _peer_only(peer(), suite, case, arch, seed)


def _refusal(backend: Backend, suite: OpSuite, case: Case, arch: str) -> CheckResult:
    call = suite.inputs(case, "meta", 0)
    try:
        backend.refuse(suite, call, arch)
    except NotImplementedError as error:
        return _result(case, FAIL, f"the op is not there: {error}")
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if re.search(case.raises, str(error), re.DOTALL):
            return _result(case, PASS, "refused by name", {"error": text})
        return _result(case, FAIL, "refused, but the text does not say why", {"error": text}, _wanted(case, text))
    return _result(case, FAIL, "the call was accepted", details=_wanted(case, "no error"))


def _wanted(case: Case, text: str) -> str:
    return f"want an error that matches {case.raises!r}\ngot  {text}"


def _both(
    backend: Backend,
    kind: str,
    peer: Peer,
    suite: OpSuite,
    case: Case,
    device: str,
    arch: str,
    seed: int,
    alone: bool,
) -> CheckResult:
    call = suite.inputs(case, device, case.seed(seed))
    # Before the thread: it imports, and pytest parses what is imported, which CPython 3.11.7 fails at in two threads.
    reason = peer.available()
    with ThreadPoolExecutor(1) as beside:
        # On a CPU the peer works in a process of its own, so both sides run at once; on a GPU they take turns.
        asked = beside.submit(_executed, peer, suite, case, arch, seed) if device == "cpu" and not reason else None
        reference = judging.several(suite.reference(case, copied(call)))  # from copies: it may work in place itself
        bands = Bands()
        ours, problems = _ours(backend, suite, case, call, reference, bands, device)
        if reason:
            theirs = Theirs(note=reason)
        else:
            theirs = asked.result() if asked else _called(peer, suite, case, copied(call), alone)
    compared = judge(suite, case, theirs.run.outputs, reference) if theirs.run else None
    if compared is not None:
        problems += judging.strides(ours, compared)
        kinds = len(theirs.run.approximate) if theirs.run else 0
        if device == "cpu" and compared.ok:  # a wrong result is no measure
            problems += judging.worse(ours, compared, kinds)
    # A translation executed on a CPU computes what its original does, operation by operation.
    if suite.bit_equal or (kind == "ported" and device == "cpu"):
        problems += judging.unequal(ours, compared) if compared else [f"nothing to be equal to: {theirs.note}"]
    data = _data(suite, case, theirs, compared, seed, device)
    data["ours"] = ours.figures()
    data["variant"] = kind
    data["error_ratio"] = judging.ratio(ours, compared) if compared else None
    data["guarded_allocations"] = len(bands.buffers)
    if not problems:
        return _result(case, PASS, _passed(ours, compared, theirs), data)
    return _result(case, FAIL, problems[0], data, _details(suite, case, problems, ours, compared, theirs.note))


def _passed(ours: Judged, compared: Judged | None, theirs: Theirs) -> str:
    beside = f"cuTile Python's {compared.summary()}" if compared else f"cuTile Python: {theirs.note.splitlines()[0]}"
    return f"{ours.summary()}; {beside}"


def _ours(
    backend: Backend,
    suite: OpSuite,
    case: Case,
    call: Call,
    reference: Sequence[torch.Tensor],
    bands: Bands,
    device: str,
) -> tuple[Judged, list[str]]:
    """Our side's outputs, judged, and all that is wrong with it by itself."""
    import torch

    from tilegym_rs_backend.fresh import uninitialized_memory

    mine = copied(call, bands)
    # The watch for unwritten memory comes last: it has to see the guarded buffers and not what they replace.
    watched = uninitialized_memory() if device == "cpu" else contextlib.nullcontext()
    with torch.no_grad(), guarded(bands), watched:
        result = backend.call(suite, mine, tuned=False)
    if device == "cuda":
        torch.cuda.synchronize()  # an asynchronous failure belongs to this case
    ours = judge(suite, case, suite.outputs(case, mine, result), reference)
    problems = [*ours.problems, *bands.broken(), *modified(suite, call, mine)]
    out = mine.kwargs.get("out")
    if out is not None and all(out.data_ptr() != each.data_ptr() for each in ours.outputs):
        problems.append("the result is not in the memory of out=")
    return ours, problems


def _executed(peer: Peer, suite: OpSuite, case: Case, arch: str, seed: int) -> Theirs:
    """The peer on the CPU; its failures are facts to report, not ours."""
    try:
        return Theirs(peer.execute(suite, case, arch, seed))
    except PeerFault as error:
        return Theirs(note=str(error), kind=error.kind)
    except Exception as error:
        return Theirs(note=f"{type(error).__name__}: {error}")


def _called(peer: Peer, suite: OpSuite, case: Case, call: Call, alone: bool) -> Theirs:
    """The peer on the GPU of the call's tensors; raises where it had too little of a GPU that others use too."""
    import torch

    try:
        with torch.no_grad():
            result = peer.call(suite, call, tuned=False)
        return Theirs(PeerRun(tuple(each.detach() for each in suite.outputs(case, call, result))))
    except Exception as error:
        if out_of_memory(error) and not alone:
            raise
        return Theirs(note=f"{type(error).__name__}: {error}")


def _peer_only(peer: Peer, suite: OpSuite, case: Case, arch: str, seed: int) -> CheckResult:
    """cuTile Python's side alone: it says that the case and the executor are right, and nothing about a kernel here."""
    reason = peer.available()
    if reason:
        return _result(case, NOT_RUN, f"{NO_KERNEL}; {reason}", {PEER_ONLY: True})
    theirs = _executed(peer, suite, case, arch, seed)
    if theirs.run is None:
        data = {PEER_ONLY: True, "cutile_python_note": theirs.note, "cutile_python_fault": theirs.kind}
        return _result(case, FAIL, f"cuTile Python only: {theirs.note.splitlines()[0]}", data, theirs.note)
    call = suite.inputs(case, "cpu", case.seed(seed))
    compared = judge(suite, case, theirs.run.outputs, judging.several(suite.reference(case, call)))
    problems = [*compared.problems, *theirs.run.modified]
    data = _data(suite, case, theirs, compared, seed, "cpu") | {PEER_ONLY: True}
    if not problems:
        return _result(case, PASS, f"cuTile Python only: {compared.summary()}", data)
    details = _details(suite, case, problems, None, compared, "")
    return _result(case, FAIL, f"cuTile Python only: {problems[0]}", data, details)


def _data(
    suite: OpSuite, case: Case, theirs: Theirs, compared: Judged | None, seed: int, device: str
) -> dict[str, Any]:
    run = theirs.run
    note = theirs.note
    if compared is not None and run is not None:
        note = next(iter((*compared.problems, *run.modified)), "")
    return {
        "cutile_python": compared.figures() if compared else None,
        "cutile_python_note": note,
        "cutile_python_fault": theirs.kind,
        "cutile_python_launches": list(run.launches) if run else [],
        "cutile_python_approximate": list(run.approximate) if run else [],
        "tolerance": vars(suite.tolerance_for(case)),
        "seed": seed,
        "device": device,
    }


def _details(
    suite: OpSuite, case: Case, problems: Sequence[str], ours: Judged | None, compared: Judged | None, note: str
) -> str:
    judged = ours or compared
    assert judged is not None
    tolerances = [suite.tolerance_for(case, number) for number in range(max(len(judged.outputs), 1))]
    lines = [
        *problems,
        *judged.rows,
        *(f"tolerance: {one}" for one in dict.fromkeys(tolerances)),
        f"NaN policy: {suite.nan_policy}",
        f"rounding policy: {suite.rounding_policy}",
    ]
    if ours is not None:
        lines.append(f"error against the reference, ours: {ours.figures()}")
    lines.append(f"error against the reference, cuTile Python: {compared.figures() if compared else note}")
    return "\n".join(lines)


def _result(case: Case, status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
    return CheckResult("numerics", case.op, case.id, status, reason, data or {}, details, case.dtype)
