# SPDX-License-Identifier: MIT
"""Device time: ours, cuTile Python's and torch's, measured together and judged by the gate."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.backend import Backend
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.backend import kind_of
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.peers.base import Peer
from pytest_cutile_rs.result import NO_DATA
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.waivers import Waiver

if TYPE_CHECKING:
    from pytest_cutile_rs.gate import CaseVerdict
    from pytest_cutile_rs.stats import NoiseFloor
    from pytest_cutile_rs.timing import Record

SUBJECT = "rs"
PEER = "py"
TORCH = "torch"
NO_DEVICE = "no_device"
NO_PEER = "no_peer"


@dataclass(frozen=True)
class Terms:
    """How a case is measured and judged.

    Attributes:
        seed: of the inputs, of the order of the blocks and of the statistics.
        threshold: lowest accepted t_cutile_python / t_cutile_rs.
        budget_s: seconds for the measured part.
        waivers: the project's; one about the case is applied to a FAIL or AMBIGUOUS.
        noise_floor: of this machine, None when it was not asked for.
        protocol: ``"best-of-4"`` to report TileGym's published protocol too.
    """

    seed: int = 0
    threshold: float = 0.95
    budget_s: float = 20.0
    waivers: tuple[Waiver, ...] = ()
    noise_floor: NoiseFloor | None = None
    protocol: str = ""


def check(
    backend: Backend,
    peer: Peer,
    suite: OpSuite,
    case: Case,
    device: Device,
    timer: Any,
    terms: Terms,
) -> CheckResult:
    """Measures one case.

    Args:
        backend, peer: the two sides.
        suite, case: what to call.
        device: where.
        timer: an open `pytest_cutile_rs.timing.Timer`.
        terms: how.
    """
    reason = peer.available()
    if reason:
        return no_peer(case, reason)
    from pytest_cutile_rs import gate
    from pytest_cutile_rs.checks import perf_text
    from pytest_cutile_rs.protocol import best_of_4
    from pytest_cutile_rs.timing import Plan

    seed = case.seed(terms.seed)
    call = suite.inputs(case, device.kind, seed)  # the same tensors for all sides
    name = f"{case.op}[{case.id}]"
    sides: dict[str, Callable[[], object]] = {
        PEER: lambda: peer.call(suite, call),
        SUBJECT: lambda: backend.call(suite, call),
        TORCH: lambda: suite.torch(case, call),
    }
    with no_grad():
        seen = _first_calls(backend, peer, suite, case, call, device)
        until = gate.decided(terms.threshold, subject=SUBJECT, peer=PEER)
        record = timer.pair(name, sides, Plan(budget_s=terms.budget_s), seed=seed, until=until)
        published = best_of_4(name, timer, sides, (PEER, SUBJECT), seed) if terms.protocol else None
    choices = {SUBJECT: seen[SUBJECT], PEER: seen[PEER]}
    tileiras = {SUBJECT: str(backend.facts().get("tileiras_sha256") or ""), PEER: str(seen[PEER].pop("tileiras", ""))}

    expected = {
        side: [str(launch["kernel"]) for launch in seen[side]["launches"]]
        for side in (SUBJECT, PEER)
        if "launches" in seen[side]
    }

    def judge(threshold: float) -> CaseVerdict:
        return gate.judge(
            record,
            threshold=threshold,
            subject=SUBJECT,
            peer=PEER,
            expected=expected if record.timer != "event" else None,
            tileiras={side: digest for side, digest in tileiras.items() if digest},
            noise_floor=terms.noise_floor,
            unobserved={side: why for side in (SUBJECT, PEER) if (why := _unseen(seen[side]))},
            others=suite.calls_torch(case),
            one_wrapper=kind_of(backend, suite) == "ported",
        )

    verdict = judge(terms.threshold)
    status, text, waived = gate.waive(verdict, terms.waivers, case.op, case.id, judge)
    data = _figures(suite, case, record, verdict) | {
        "choices": choices,
        "tileiras": tileiras,
        "noise_floor": terms.noise_floor.relative if terms.noise_floor else None,
        "seed": terms.seed,
    }
    data |= {"protocol": published} if published else {}
    data |= {"waived": waived} if waived else {}
    details = perf_text.details(text, verdict, record, choices, terms.seed, data["noise_floor"])
    return _result(case, status, text, data, details)


def _first_calls(
    backend: Backend, peer: Peer, suite: OpSuite, case: Case, call: Any, device: Device
) -> dict[str, dict[str, Any]]:
    """Call both sides once, apart from all timing: compilation and tuning happen here, and are written down.

    A side that raises is left to the timer, which calls it again and makes the verdict.
    """
    found: dict[str, dict[str, Any]] = {SUBJECT: {}, PEER: {}}
    for side in (PEER, SUBJECT):
        begin = time.perf_counter()
        try:
            if side == PEER:
                found[side] = dict(peer.observe(suite, call, device.arch))
            else:
                found[side] = dict(backend.observe(suite, case, call, device.arch))
        except Exception as error:
            found[side] = {"error": f"{type(error).__name__}: {error}"}
        found[side]["first_call_s"] = round(time.perf_counter() - begin, 3)
        tuning = found[side].get("tuning", ())
        found[side]["tuning_s"] = round(sum(search.get("seconds", 0.0) for search in tuning), 3)
    return found


def _unseen(found: Mapping[str, Any]) -> str:
    """Why it is not known what a side launched, empty where it is. An op that is timed launches something."""
    if "error" in found:
        return str(found["error"])
    return "" if found.get("launches", True) else "its first call was watched, and launched nothing"


def _figures(suite: OpSuite, case: Case, record: Record, verdict: CaseVerdict) -> dict[str, Any]:
    times = {side: _number(record.median_us(side)) for side in (PEER, SUBJECT, TORCH)}
    return {
        "threshold": verdict.threshold,
        "ratio": _number(verdict.ratio),
        "low": _number(verdict.low),
        "high": _number(verdict.high),
        "counted": _number(verdict.counted),
        "floored": verdict.floored,
        "code": verdict.reason,
        "us": times,
        "host_us": dict(record.host_us),
        "gbytes_per_s": _rate(suite.bytes_moved(case), times[SUBJECT], 1e3),
        "tflops": _rate(suite.flops(case), times[SUBJECT], 1e6),
        "timer": record.timer,
        "record": record.to_json(),
    }


def no_device(case: Case, device: Device) -> CheckResult:
    """Device time cannot exist here."""
    return _result(case, NOT_RUN, device.reason or "device time needs a CUDA device", {"code": NO_DEVICE})


def no_peer(case: Case, reason: str) -> CheckResult:
    """There is nothing to compare with."""
    return _result(case, NOT_RUN, reason, {"code": NO_PEER})


def unavailable(case: Case, code: str, text: str) -> CheckResult:
    """There is a GPU, but no clock: a gate without data, which is a failure."""
    return _result(case, NO_DATA, text, {"code": code}, text)


def _rate(amount: int, microseconds: float | None, scale: float) -> float | None:
    return amount / microseconds / scale if microseconds else None


def _number(value: float) -> float | None:
    return float(value) if value == value else None


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """torch's, where it is loaded. A case that asks for gradients gets them on this thread, which is the timed one."""
    torch = sys.modules.get("torch")  # loaded by the inputs if any side needs it
    if torch is None:
        yield
        return
    with torch.no_grad(), torch.autograd.set_multithreading_enabled(False):
        yield


def _result(case: Case, status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
    return CheckResult("perf", case.op, case.id, status, reason, data or {}, details, case.dtype)
