# SPDX-License-Identifier: MIT
"""Device time: ours, cuTile Python's and torch's, measured together and judged by the gate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_cutile_rs.backend import Backend
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.peers.base import Peer
from pytest_cutile_rs.result import NO_DATA
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import CheckResult

SUBJECT = "rs"
PEER = "py"
TORCH = "torch"


def check(
    backend: Backend,
    peer: Peer,
    suite: OpSuite,
    case: Case,
    device: Device,
    timer: Any,
    *,
    seed: int,
    threshold: float,
    budget_s: float,
    expected: Sequence[str] = (),
) -> CheckResult:
    """Measures one case.

    Args:
        backend, peer: the two sides.
        suite, case: what to call.
        device: where.
        timer: an open `pytest_cutile_rs.timing.Timer`.
        seed: of the inputs, of the order of the blocks and of the statistics.
        threshold: lowest accepted t_cutile_python / t_cutile_rs.
        budget_s: seconds for the measured part.
        expected: names of our kernels, when known.
    """
    reason = peer.available()
    if reason:
        return _result(case, NOT_RUN, reason)
    from pytest_cutile_rs import gate
    from pytest_cutile_rs.timing import Plan

    call = suite.inputs(case, device.kind, case.seed(seed))  # the same tensors for all sides
    sides = {
        PEER: lambda: peer.call(suite, call),
        SUBJECT: lambda: backend.call(suite, call),
        TORCH: lambda: suite.torch(case, call),
    }
    with _no_grad():
        record = timer.pair(
            f"{case.op}[{case.id}]",
            sides,
            Plan(budget_s=budget_s),
            seed=case.seed(seed),
            until=gate.decided(threshold, subject=SUBJECT, peer=PEER),
        )
    verdict = gate.judge(
        record,
        threshold=threshold,
        subject=SUBJECT,
        peer=PEER,
        expected={SUBJECT: list(expected)} if expected else None,
    )
    times = {side: _number(record.median_us(side)) for side in sides}
    data = {
        "threshold": threshold,
        "ratio": _number(verdict.ratio),
        "low": _number(verdict.low),
        "high": _number(verdict.high),
        "counted": _number(verdict.counted),
        "code": verdict.reason,
        "us": times,
        "host_us": dict(record.host_us),
        "gbytes_per_s": _rate(suite.bytes_moved(case), times[SUBJECT], 1e3),
        "tflops": _rate(suite.flops(case), times[SUBJECT], 1e6),
        "timer": record.timer,
        "record": record.to_json(),
    }
    details = f"{verdict.text}\nkernels: { {side: list(names) for side, names in record.kernels.items()} }\n"
    details += f"machine while measuring: {record.machine}\nseed: {seed}"
    return _result(case, verdict.verdict, verdict.text, data, details)


def no_device(case: Case, device: Device) -> CheckResult:
    """Device time cannot exist here."""
    return _result(case, NOT_RUN, device.reason or "device time needs a CUDA device")


def unavailable(case: Case, code: str, text: str) -> CheckResult:
    """There is a GPU, but no clock: a gate without data, which is a failure."""
    return _result(case, NO_DATA, text, {"code": code}, text)


def _rate(amount: int, microseconds: float | None, scale: float) -> float | None:
    return amount / microseconds / scale if microseconds else None


def _number(value: float) -> float | None:
    return float(value) if value == value else None


def _no_grad() -> Any:
    import torch

    return torch.no_grad()


def _result(case: Case, status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
    return CheckResult("perf", case.op, case.id, status, reason, data or {}, details, case.dtype)
