# SPDX-License-Identifier: MIT
"""Does device timing work on this GPU host? Needs torch and CUPTI alone.

    python benchmarks/cupti_smoke.py [--prefix DIR] [--out DIR]

A/A pairs of torch ops (two equal sides have to come out equal), copies that are 2 % and 7 % larger on one side (the
gate has to pass the first and fail the second), and a kernel launched through the driver API. Exit status 1 when one
of these does not hold.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import Any

import _common

from pytest_cutile_rs import gate
from pytest_cutile_rs import stats
from pytest_cutile_rs.timing import Plan
from pytest_cutile_rs.timing import Record
from pytest_cutile_rs.timing import Side
from pytest_cutile_rs.timing import TimingUnavailable
from pytest_cutile_rs.timing import make_timer

MIB = 1 << 20
SAXPY = """
extern "C" __global__ void smoke_saxpy(float* y, const float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += 2.0f * x[i];
}
"""


def equal_sides() -> dict[str, Side]:
    import torch

    def randn(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
        return torch.randn(shape, device="cuda", dtype=dtype)

    sides: dict[str, Side] = {}
    for rows, cols in ((64, 1024), (4096, 1024), (8192, 1000), (4096, 4096)):
        x = randn(rows, cols)
        sides[f"softmax f16 {rows}x{cols}"] = lambda x=x: torch.softmax(x, -1)
    for size in (512, 1024, 2048, 4096):
        a, b = randn(size, size, dtype=torch.bfloat16), randn(size, size, dtype=torch.bfloat16)
        sides[f"matmul bf16 {size}"] = lambda a=a, b=b: torch.matmul(a, b)
    x = randn(2048, 8192)
    sides["silu f16 2048x8192"] = lambda: torch.nn.functional.silu(x)
    return sides


def copy_side(mib: float) -> Side:
    """A copy of this size by an elementwise kernel, not by the copy engine."""
    import torch

    x = torch.randn(int(mib * MIB) // 4, device="cuda")
    out = torch.empty_like(x)
    return lambda: torch.add(x, 1.0, out=out)


def driver_side() -> Side:
    """cuLaunchKernel, the way cutile-rs launches."""
    import torch

    kernel: Any = torch.cuda._compile_kernel(SAXPY, "smoke_saxpy")
    x, y = torch.randn(1 << 24, device="cuda"), torch.zeros(1 << 24, device="cuda")
    return lambda: kernel(grid=(1056, 1, 1), block=(256, 1, 1), args=[y, x, x.numel()])


def judge(record: Record) -> gate.CaseVerdict:
    """The gate's verdict; these are torch's kernels on purpose."""
    return gate.judge(dataclasses.replace(record, kernels={}), subject="b", peer="a")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", type=Path, help="folder that holds cupti/ and nvidia/")
    parser.add_argument("--timer", default="cupti", choices=("cupti", "event"))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    timer = make_timer(args.timer, args.prefix, event_gates=True)
    try:
        timer.open()
    except TimingUnavailable as problem:
        print(f"NO-DATA {problem.code}: {problem}")
        return 1
    facts = _common.provenance("cupti_smoke.py") | timer.facts()
    print(_common.facts_text(facts), flush=True)
    rows, records, problems = [], [], []

    def measure(name: str, a: Side, b: Side, wanted: str) -> gate.CaseVerdict:
        record = timer.pair(name, {"a": a, "b": b}, Plan(), seed=len(rows), until=gate.decided(subject="b", peer="a"))
        case = judge(record)
        records.append(record)
        if case.verdict != wanted:
            problems.append(f"{name}: {case.verdict} instead of {wanted}: {case.text}")
        rows.append(
            (
                name,
                f"{case.peer_us:.2f}",
                f"{case.ratio:.4f} [{case.low:.4f}, {case.high:.4f}]",
                f"{record.kept}/{record.attempted}",
                f"{record.host_us.get('a', 0):.1f}",
                ", ".join(n[:40] for n in record.kernels.get("a", ())),
                case.verdict,
                f"{record.seconds:.2f}",
            )
        )
        return case

    floor: list[stats.Estimate] = []
    for name, side in equal_sides().items():
        case = measure(f"A/A {name}", side, side, gate.PASS)
        if case.peer_us > 10:
            floor.append(stats.Estimate(case.ratio, case.low, case.high, case.blocks))
            if floor[-1].half_width > 0.01:
                problems.append(f"{name}: the interval is {floor[-1].half_width:.2%} wide to each side")
    base = copy_side(256)
    measure("copy, 2 % more on one side", base, copy_side(256 * 1.02), gate.PASS)
    measure("copy, 7 % more on one side", base, copy_side(256 * 1.07), gate.FAIL)
    try:
        driver = driver_side()
    except Exception as problem:
        print(f"no kernel through the driver API here: {type(problem).__name__}: {problem}")
    else:
        measure("A/A driver API launch", driver, driver, gate.PASS)
    timer.close()
    header = ("case", "us", "ratio [95 % CI]", "blocks", "host us", "kernels", "verdict", "s")
    text = f"{_common.facts_text(facts)}\n\n{_common.table(header, rows)}\n"
    if floor:
        text += f"\nnoise floor over {len(floor)} A/A cases above 10 us: "
        text += f"median ratios {min(e.ratio for e in floor):.4f} to {max(e.ratio for e in floor):.4f}, "
        text += f"widest interval +-{max(e.half_width for e in floor):.2%}\n"
    text += f"\nVERDICT: {'FAIL ' + '; '.join(problems) if problems else 'PASS'}"
    _common.write(args.out, "cupti-smoke", {"facts": facts, "records": [r.to_json() for r in records]}, text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
