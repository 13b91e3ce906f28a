# SPDX-License-Identifier: MIT
"""Does the gate judge rightly on this GPU host? At most about three minutes.

    python benchmarks/gate_on_gpu.py [--out DIR] [--prefix DIR] [--no-peer]

Our kernels against themselves in 10 cases (PASS, and an interval of at most 1 % to each side above 10 us); one slowed
by 7 % (FAIL) and by 2 % (not FAIL), by that much more data; a peer replaced by torch (UNFAIR); and, unless --no-peer,
cuTile Python itself (never UNFAIR, NOISY or NO-DATA). Prints a table, a JSON line and the verdict; exit status 1 when
one of these does not hold.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _common

from pytest_cutile_rs import noise
from pytest_cutile_rs.backend import CutileRsBackend
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks import perf
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.suites import suites
from pytest_cutile_rs.timing import TimingUnavailable
from pytest_cutile_rs.timing import make_timer

OPS = ("softmax", "silu_and_mul", "matmul")
PEER_OPS = ("softmax", "silu_and_mul")  # their tuners are quick
EQUAL_PAIRS = 10
LARGEST_BYTES = 1 << 30
LONG_US = 10.0
SLOWED = Case("softmax", "f16-32768x4096", "f16", (32768, 4096), perf=True)
HEADER = ("case", "wanted", "verdict", "peer us", "ours us", "ratio [95 % CI]", "+- %", "blocks", "clock MHz", "s")


class Ourselves:
    """A peer that is our own side: the two have to come out equal."""

    name = "ourselves"

    def __init__(self, backend: Any, case: Case) -> None:
        self._backend, self._case = backend, case

    def available(self) -> None:
        return None

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        return self._backend.call(suite, call)

    def observe(self, suite: OpSuite, call: Call, arch: str) -> dict[str, Any]:
        found: dict[str, Any] = self._backend.observe(suite, self._case, call, arch)
        return found | {"tileiras": self._backend.facts().get("tileiras_sha256", "")}


class Torch(Ourselves):
    """A peer that has quietly become torch; it launches nothing of its own."""

    name = "torch"

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        return suite.torch(self._case, call)

    def observe(self, suite: OpSuite, call: Call, arch: str) -> dict[str, Any]:
        self.call(suite, call)
        return {"launches": [], "tuning": [], "tileiras": self._backend.facts().get("tileiras_sha256", "")}


class Slowed:
    """Our side with more rows than it is asked for: the same kernel, longer by that much."""

    def __init__(self, backend: Any, suite: OpSuite, device: str, percent: int) -> None:
        rows, columns = SLOWED.shape
        more = round(rows * (100 + percent) / 100 / 64) * 64
        self._backend = backend
        self._call = suite.inputs(dataclasses.replace(SLOWED, shape=(more, columns)), device, 1)

    def kind(self, op: str) -> str:
        return str(self._backend.kind(op))

    def call(self, suite: OpSuite, call: Call, tuned: bool = True) -> Any:
        return self._backend.call(suite, self._call)

    def observe(self, suite: OpSuite, case: Case, call: Call, arch: str) -> dict[str, Any]:
        found: dict[str, Any] = self._backend.observe(suite, case, self._call, arch)
        return found

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self._backend.facts()
        return found


def equal_cases() -> list[tuple[OpSuite, Case]]:
    """Timed cases of each op in turn, spread over their sizes."""
    by_op: list[list[tuple[OpSuite, Case]]] = []
    for op in OPS:
        suite = suites()[op]
        fitting = [case for case in suite.cases if case.perf and suite.bytes_moved(case) <= LARGEST_BYTES]
        fitting.sort(key=suite.bytes_moved)
        step = max(1, len(fitting) // (EQUAL_PAIRS // len(OPS) + 1))
        by_op.append([(suite, case) for case in fitting[::-1][::step]])
    turns = max(map(len, by_op))
    spread = [members[turn] for turn in range(turns) for members in by_op if turn < len(members)]
    return spread[:EQUAL_PAIRS]


def row(name: str, wanted: str, result: CheckResult, seconds: float) -> tuple[str, ...]:
    data = result.data
    us, record = data.get("us", {}), data.get("record", {})
    clock = record.get("machine", {}).get("after", {}).get("sm_mhz", "")
    if data.get("ratio") is None:
        return (name, wanted, f"{result.status} {data.get('code', '')}", *[""] * 6, f"{seconds:.1f}")
    return (
        name,
        wanted,
        f"{result.status} {data['code']}",
        f"{us['py']:.2f}",
        f"{us['rs']:.2f}",
        f"{data['ratio']:.4f} [{data['low']:.4f}, {data['high']:.4f}]",
        f"{half_width(data):.2%}",
        str(len(record["blocks"]["rs"])),
        str(clock),
        f"{seconds:.1f}",
    )


def half_width(data: dict[str, Any]) -> float:
    return float(data["high"] - data["low"]) / 2


class Trial:
    """Measures and keeps what did not come out as wanted."""

    def __init__(self, backend: Any, device: Device, timer: Any) -> None:
        self.backend, self.device, self.timer = backend, device, timer
        self.rows: list[tuple[str, ...]] = []
        self.results: list[CheckResult] = []
        self.problems: list[str] = []

    def run(self, name: str, wanted: Sequence[str], suite: OpSuite, case: Case, peer: Any, subject: Any = None) -> Any:
        begin = time.perf_counter()
        terms = perf.Terms(seed=len(self.rows), budget_s=3.0)
        side = subject or self.backend
        try:
            result = perf.check(side, peer, suite, case, self.device, self.timer, terms)
        except Exception as error:  # say which case it was, and go on
            result = CheckResult("perf", case.op, case.id, "FAIL", f"{type(error).__name__}: {error}")
        if result.status not in wanted or "ratio" not in result.data:
            self.problems.append(f"{name}: {result.status} instead of {' or '.join(wanted)}: {result.reason}")
        self.results.append(result)
        self.rows.append(row(name, " or ".join(wanted), result, time.perf_counter() - begin))
        print(" | ".join(self.rows[-1]), flush=True)
        return result


def floor_of(trial: Trial, chosen: Sequence[tuple[OpSuite, Case]]) -> dict[str, Any]:
    def side(suite: OpSuite, case: Case) -> Callable[[], object]:
        call = suite.inputs(case, trial.device.kind, 0)
        return lambda: trial.backend.call(suite, call)

    pairs = [(f"{case.op}[{case.id}]", lambda s=suite, c=case: side(s, c)) for suite, case in chosen]
    floor = noise.measure(trial.timer, pairs, 3)
    if not floor.resolves(0.95):
        trial.problems.append(f"the noise floor is {floor.relative:.2%}")
    return noise.to_json(floor, trial.device.uuid)


def trials(trial: Trial, with_peer: bool) -> None:
    for suite, case in equal_cases():
        name = f"A/A {case.op}[{case.id}]"
        data = trial.run(name, ["PASS"], suite, case, Ourselves(trial.backend, case)).data
        if data.get("ratio") and data["us"]["rs"] > LONG_US and half_width(data) > 0.01:
            trial.problems.append(f"{name}: the interval is {half_width(data):.2%} wide to each side")
    suite = suites()["softmax"]
    for percent, wanted in ((2, ["PASS", "AMBIGUOUS"]), (7, ["FAIL"])):
        slowed = Slowed(trial.backend, suite, trial.device.kind, percent)
        peer = Ourselves(trial.backend, SLOWED)
        trial.run(f"slowed by {percent} %", wanted, suite, SLOWED, peer, slowed)
    trial.run("peer replaced by torch", ["UNFAIR"], suite, SLOWED, Torch(trial.backend, SLOWED))
    if with_peer:
        from pytest_cutile_rs.peers.cutile_python import CutilePython

        peer = CutilePython()
        for op in PEER_OPS:
            suite = suites()[op]
            case = next(case for case in suite.cases if case.perf and suite.bytes_moved(case) > 1 << 24)
            trial.run(f"cuTile Python {op}[{case.id}]", ["PASS", "FAIL", "AMBIGUOUS"], suite, case, peer)
        peer.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path, help="folder that holds cupti/ and nvidia/")
    parser.add_argument("--no-peer", action="store_true", help="leave out cuTile Python's own kernels")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    begin = time.perf_counter()
    backend = CutileRsBackend()
    backend.prepare()
    device = backend.device()
    if not device.timed:
        print(f"VERDICT: NOT-RUN {device.reason}")
        return 1
    timer = make_timer("cupti", args.prefix)
    try:
        timer.open()
    except TimingUnavailable as problem:
        print(f"VERDICT: FAIL NO-DATA {problem.code}: {problem}")
        return 1
    trial = Trial(backend, device, timer)
    try:
        floor = floor_of(trial, equal_cases())
    except noise.NoNoiseFloor as problem:
        floor = {}
        trial.problems.append(str(problem))
    trials(trial, not args.no_peer)
    facts = _common.provenance("gate_on_gpu.py") | timer.facts() | {"sides": backend.facts()}
    timer.close()
    verdict = f"FAIL {'; '.join(trial.problems)}" if trial.problems else "PASS"
    seconds = round(time.perf_counter() - begin, 1)
    print(json.dumps({"verdict": verdict, "seconds": seconds, "noise_floor": floor, "rows": trial.rows}))
    noted = f"\nnoise floor {floor['relative']:.2%} over {len(floor['cases'])} A/A cases\n" if floor else ""
    text = f"{_common.facts_text(facts)}\n\n{_common.table(HEADER, trial.rows)}\n{noted}\nVERDICT: {verdict}"
    data = {"facts": facts, "noise_floor": floor, "results": [vars(one) | {"details": ""} for one in trial.results]}
    _common.write(args.out, "gate-on-gpu", data, text)
    return 1 if trial.problems else 0


if __name__ == "__main__":
    sys.exit(main())
