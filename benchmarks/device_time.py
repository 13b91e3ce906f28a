# SPDX-License-Identifier: MIT
"""Device time of every timed parity case: cuTile Python, torch and ours, measured together. Needs a GPU.

    python benchmarks/device_time.py --out docs/results [--ops softmax matmul] [--match 4096] [--shard 1/2] [--budget 5]

Writes device-time.json and device-time.md with date, versions and command.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

import _common

from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.suites import suites

TIMES = ("cuTile Python us", "torch us", "ours us")
HEADER = ("case", *TIMES, "speedup [95 % CI]", "over torch", "GB/s", "TFLOP/s", "verdict")


def selected(args: argparse.Namespace) -> list[tuple[Any, Any]]:
    """(suite, case) of every timed case that the arguments ask for."""
    found = [
        (suite, case)
        for name, suite in suites().items()
        for case in suite.cases
        if case.perf and (not args.ops or name in args.ops) and re.search(args.match, f"{name}[{case.id}]")
    ]
    index, count = args.shard
    return found[index - 1 :: count]


def row(result: CheckResult) -> tuple[str, ...]:
    data = result.data
    name = f"{result.op}[{result.case}]"
    if "us" not in data or data.get("ratio") is None:
        return (name, *[""] * 7, f"{result.status} {result.reason[:80]}")
    us = data["us"]

    def show(value: float | None, digits: int = 2) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    torch_us, ours_us = us.get("torch"), us.get("rs")
    return (
        name,
        show(us.get("py")),
        show(torch_us),
        show(ours_us),
        f"{data['ratio']:.3f} [{data['low']:.3f}, {data['high']:.3f}]",
        show(torch_us / ours_us if torch_us and ours_us else None),
        show(data.get("gbytes_per_s"), 0),
        show(data.get("tflops"), 1),
        result.status,
    )


def geomeans(results: list[CheckResult]) -> list[str]:
    import numpy as np

    from pytest_cutile_rs import gate
    from pytest_cutile_rs.timing import Record

    lines = []
    for op in dict.fromkeys(r.op for r in results):
        records = [Record.from_json(r.data["record"]) for r in results if r.op == op and "record" in r.data]
        verdicts = [gate.judge(record, allow_non_gating=True) for record in records]
        lines.append(f"- {gate.judge_op(op, verdicts).text}")
        counted = [v.ratio for v in verdicts if v.ratio == v.ratio]
        if counted:
            lines[-1] += f"; as measured {np.exp(np.mean(np.log(counted))):.3f}"
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", nargs="*", default=[])
    parser.add_argument("--match", default="", help="regular expression on op[case]")
    parser.add_argument("--shard", type=_common.shard, default=(1, 1), help="i/n")
    parser.add_argument("--budget", type=float, default=5.0, help="seconds measured per case")
    parser.add_argument("--limit", type=float, default=0.0, help="seconds for the whole run; later cases are left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threshold", type=float, default=0.95)
    parser.add_argument("--timer", default="cupti", choices=("cupti", "event"))
    parser.add_argument("--prefix", type=Path, help="folder that holds cupti/ and nvidia/")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    args = parser.parse_args()
    chosen = selected(args)
    if args.list:
        print("\n".join(f"{suite.name}[{case.id}]" for suite, case in chosen))
        return 0

    from pytest_cutile_rs.backend import CutileRsBackend
    from pytest_cutile_rs.checks import perf
    from pytest_cutile_rs.peers.cutile_python import CutilePython
    from pytest_cutile_rs.timing import make_timer

    backend, peer = CutileRsBackend(), CutilePython()
    backend.prepare()
    device = backend.device()
    if not device.timed:
        print(f"NOT-RUN {device.reason}")
        return 1
    timer = make_timer(args.timer, args.prefix)
    timer.open()
    begin = time.perf_counter()
    results: list[CheckResult] = []
    left_out = 0
    for suite, case in chosen:
        if args.limit and time.perf_counter() - begin > args.limit:
            left_out += 1
            continue
        started = time.perf_counter()
        terms = perf.Terms(seed=args.seed, threshold=args.threshold, budget_s=args.budget)
        results.append(perf.check(backend, peer, suite, case, device, timer, terms))
        print(f"{time.perf_counter() - started:6.1f} s  {' | '.join(row(results[-1]))}", flush=True)
    facts = _common.provenance("device_time.py") | timer.facts() | {"sides": backend.facts() | peer.facts()}
    timer.close()
    peer.close()
    text = f"# Device time\n\n{_common.facts_text(facts)}\n\n{_common.table(HEADER, map(row, results))}\n\n"
    text += "speedup = t_cutile_python / t_cutile_rs. Per op:\n\n" + "\n".join(geomeans(results))
    if left_out:
        text += f"\n\nNot run within {args.limit:g} s: {left_out} cases."
    data = {"facts": facts, "left_out": left_out, "results": [vars(r) | {"details": ""} for r in results]}
    _common.write(args.out, "device-time", data, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
