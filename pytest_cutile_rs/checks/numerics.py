# SPDX-License-Identifier: MIT
"""Numbers: our result against a reference of higher precision, with cuTile Python's error beside ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.backend import Backend
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.comparator import Comparison
from pytest_cutile_rs.checks.comparator import compare
from pytest_cutile_rs.checks.guard import guarded
from pytest_cutile_rs.peers.base import Peer
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import CheckResult

if TYPE_CHECKING:
    import torch

EXECUTED_BYTES = 32 << 20
EXECUTED_FLOPS = 1 << 30
"""A case that moves or computes more than this is not executed on a CPU."""


def check(
    backend: Backend, peer: Callable[[], Peer], suite: OpSuite, case: Case, device: Device, arch: str, seed: int
) -> CheckResult:
    """Runs one case, and says whether its numbers are right.

    A refusal case needs no device and no peer. Everything else is NOT-RUN without a device.
    """
    if case.raises:
        return _refusal(backend, suite, case, arch)
    if not device.kind:
        return _result(case, NOT_RUN, device.reason)
    if device.kind == "cpu" and _too_large(suite, case):
        return _result(case, NOT_RUN, f"too large to execute on a CPU; {device.reason}")
    return _numbers(backend, peer(), suite, case, device.kind, seed)


def _too_large(suite: OpSuite, case: Case) -> bool:
    """Whether executing the case's bytecode would take more than a few seconds on a CPU."""
    return suite.bytes_moved(case) > EXECUTED_BYTES or suite.flops(case) > EXECUTED_FLOPS


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


def _numbers(backend: Backend, peer: Peer, suite: OpSuite, case: Case, device: str, seed: int) -> CheckResult:
    import torch

    call = suite.inputs(case, device, case.seed(seed))
    before = _snapshot(call)
    reference = _first(suite.reference(case, call))  # first: the op may spoil its input
    with torch.no_grad(), guarded() as bands:
        got = _first(backend.call(suite, call))
    if device == "cuda":
        torch.cuda.synchronize()  # an asynchronous failure belongs to this case
    ours = _compare(suite, case, got, reference)
    problems = list(ours.problems)
    problems += bands.broken()
    problems += _modified(call, before)
    out = call.kwargs.get("out")
    if out is not None and out.data_ptr() != got.data_ptr():
        problems.append("the result is not in the memory of out=")
    theirs, stride, note = _theirs(peer, suite, case, device, seed, reference)
    if stride is not None and stride != tuple(got.stride()):
        problems.append(f"stride {tuple(got.stride())}, cuTile Python's is {stride}")
    data: dict[str, Any] = {
        "ours": ours.figures(),
        "cutile_python": theirs.figures() if theirs else None,
        "cutile_python_note": note,
        "guarded_allocations": len(bands.buffers),
        "tolerance": vars(suite.tolerance_for(case)),
        "seed": seed,
        "device": device,
    }
    if not problems:
        return _result(case, PASS, f"max error {ours.max_abs:.3g} abs, {ours.max_ulp:.3g} ulp", data)
    details = "\n".join(
        [
            *problems,
            *ours.rows,
            f"tolerance: {suite.tolerance_for(case)}",
            f"NaN policy: {suite.nan_policy}",
            f"rounding policy: {suite.rounding_policy}",
            f"error against the reference, ours: {ours.figures()}",
            f"error against the reference, cuTile Python: {theirs.figures() if theirs else note}",
        ]
    )
    return _result(case, FAIL, problems[0], data, details)


def _theirs(
    peer: Peer, suite: OpSuite, case: Case, device: str, seed: int, reference: torch.Tensor
) -> tuple[Comparison | None, tuple[int, ...] | None, str]:
    """The peer's error, its result's strides, and a note when it has none: its failures are not ours."""
    import torch

    reason = peer.available()
    if reason:
        return None, None, reason
    call = suite.inputs(case, device, case.seed(seed))
    try:
        with torch.no_grad():
            got = _first(peer.call(suite, call, tuned=False))
    except Exception as error:  # whatever the peer raises is a fact to report
        return None, None, f"{type(error).__name__}: {error}".splitlines()[0]
    compared = _compare(suite, case, got, reference)
    return compared, tuple(got.stride()), "" if compared.ok else compared.problems[0]


def _compare(suite: OpSuite, case: Case, got: torch.Tensor, reference: torch.Tensor) -> Comparison:
    import torch

    return compare(
        got,
        reference,
        suite.tolerance_for(case),
        dtype=getattr(torch, TORCH_DTYPES[case.dtype]),
        empty_ok=0 in case.shape,
        no_information_ok=case.no_information_ok,
    )


def _snapshot(call: Call) -> list[torch.Tensor]:
    return [value.clone() for value in _read_only(call)]


def _modified(call: Call, before: list[torch.Tensor]) -> list[str]:
    import torch

    found = []
    for position, (now, then) in enumerate(zip(_read_only(call), before, strict=True)):
        # Bits, not values: NaN differs from itself, and -0 equals 0.
        width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[now.element_size()]
        if not torch.equal(now.contiguous().view(width), then.contiguous().view(width)):
            found.append(f"input {position} was modified")
    return found


def _read_only(call: Call) -> list[torch.Tensor]:
    import torch

    named = [value for name, value in call.kwargs.items() if name != "out"]
    return [value for value in [*call.args, *named] if isinstance(value, torch.Tensor)]


def _first(output: Any) -> torch.Tensor:
    result: torch.Tensor = output[0] if isinstance(output, (tuple, list)) else output
    return result.detach()


def _result(case: Case, status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
    return CheckResult("numerics", case.op, case.id, status, reason, data or {}, details, case.dtype)
