# SPDX-License-Identifier: MIT
"""Executes TileGym's cuTile Python ops on the CPU, from the case files, and writes docs/ops.md.

    PYTHONPATH=. python tools/ops_table.py --write          the smallest case of every op, to docs/ops.md
    PYTHONPATH=. python tools/ops_table.py softmax bmm      these ops alone, to stdout
    PYTHONPATH=. python tools/ops_table.py softmax --every  every case that is small enough; a case id picks one

The smallest case of an op is the first one of its case file. Exit status 1: an op could not be executed or is
out of tolerance.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.judge import judge
from pytest_cutile_rs.checks.judge import several
from pytest_cutile_rs.peers.wire import unpack
from pytest_cutile_rs.size import CPU
from pytest_cutile_rs.size import size_of
from pytest_cutile_rs.suites import suites

PAGE = Path(__file__).parent.parent / "docs" / "ops.md"
ARCH = "sm_90"
HEAD = """\
# TileGym's ops, executed on a CPU

`python tools/ops_table.py --write` wrote this page: it runs the cuTile Python implementation of each op that TileGym
registers, captures its launches as for {arch} (nvfp4_quantize: sm_100, since sm_90 has no 4-bit floats), executes their
bytecode on the CPU and compares with the case file's fp64 reference. One case per op, the first of its case file: the
smallest of TileGym's own test shapes, or a smaller one of ours. `max error` is the largest absolute error of any
output, `tolerance` the case file's (absolute + relative times x).

{passed} of {total} ops execute and are within tolerance.

What TileGym 1.5.1's implementations do wrong or not at all, found by executing the case files:

- `softmax` of a transposed tensor, and `layer_norm_legacy` of a permuted one of rank 3, write to a copy of their output
  and return the output uninitialised.
- `mhc_gemm_rms_scale`: where the tuner splits K and the rows are no multiple of the tile, partial sums are written
  beyond their buffer and lost (100 rows, tiles of 64, two splits: rows from 72 on are wrong).
- `get_swiglu`, backward: division by zero for a tensor with fewer columns than SMs / rows, such as (3, 17).
- `gelu` in its tanh approximation, backward: NaN instead of 0 or 1 for |x| above about 1e19.
- `mhc_sinkhorn` works on a copy of a y that is not contiguous, so that y stays as it was.
- `persistent_layer_norm` of no rows does not compile, `softmax` of rows without elements neither; `layer_norm` refuses
  a tensor without elements.
- `nvfp4_quantize`: the scale of a block below 6 * 2^-10 is rounded to zero, and its values become 0 / 0.
- `relu`: NaN becomes 0, in PyTorch it stays.

| op | case | launches | max error | tolerance | result |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Outcome:
    """What came of one case; ``reason`` is empty when it is right."""

    case: Case
    launches: tuple[str, ...] = ()
    max_abs: float = 0.0
    tolerance: str = ""
    reason: str = ""
    seconds: float = 0.0
    details: str = ""


def execute_case(suite: OpSuite, case: Case, seed: int = 0) -> Outcome:
    """Carry out one case with cuTile Python's kernels on the CPU and compare every output."""
    from pytest_cutile_rs.peers.executing import execute

    reference = several(suite.reference(case, suite.inputs(case, "cpu", case.seed(seed))))
    started = time.perf_counter()
    try:
        executed = execute(suite, case, ARCH, seed)
    except Exception as error:  # whatever the op raises is what the table is about
        lines = f"{type(error).__name__}: {error}".strip().splitlines()
        return Outcome(case, reason=lines[0], details=traceback.format_exc())
    seconds = time.perf_counter() - started
    judged = judge(suite, case, [unpack(one) for one in executed.outputs], reference)
    problems = [*judged.problems, *executed.modified]
    return Outcome(
        case,
        executed.launches,
        max((one.max_abs for one in judged.comparisons), default=0.0),
        "; ".join(dict.fromkeys(_tolerance(suite, case, i) for i in range(len(reference)))),
        problems[0] if problems else "",
        seconds,
        "\n".join((*problems, *judged.rows)),
    )


def _tolerance(suite: OpSuite, case: Case, output: int) -> str:
    one = suite.tolerance_for(case, output)
    return f"{one.atol:.2g} + {one.rtol:.2g}·x" if one.atol or one.rtol else "exact"


def row(name: str, outcome: Outcome | None) -> str:
    """One line of the table."""
    if outcome is None:
        return f"| {name} | | | | | no case file |"
    counted = Counter(outcome.launches)
    kernels = ", ".join(f"`{kernel}`" + (f" x{n}" if n > 1 else "") for kernel, n in counted.items())
    error = f"{outcome.max_abs:.2g}" if outcome.tolerance else ""
    result = (outcome.reason or "ok").replace("|", "\\|")
    return f"| {name} | {outcome.case.id} | {kernels} | {error} | {outcome.tolerance} | {result} |"


def registered() -> list[str]:
    """The ops that TileGym has a cuTile Python implementation of."""
    from tilegym.backend import dispatcher

    return sorted(name for name, found in dispatcher._REGISTRY.items() if "cutile" in found)


def main(arguments: list[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ops", nargs="*", help="ops, or op[case-id]; all without any")
    parser.add_argument("--every", action="store_true", help="every case that is small enough, not the first alone")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} instead of printing the table")
    parser.add_argument("--details", action="store_true", help="tracebacks and the first bad elements")
    given = parser.parse_args(arguments)
    os.environ["DISABLE_FALLBACK"] = "1"
    from tilegym_rs_backend.port.capture import import_tilegym

    import_tilegym().set_backend("cutile")
    known = suites()
    failed = 0
    rows = []
    for name in given.ops or registered():
        name, _, wanted = name.rstrip("]").partition("[")
        suite = known.get(name)
        if suite is None:
            rows.append(row(name, None))
            print(rows[-1], flush=True)
            failed += 1
            continue
        cases = (
            [case for case in suite.cases if not case.raises and size_of(suite, case) == CPU]
            if given.every or wanted
            else [suite.cases[0]]
        )
        for case in cases:
            if wanted and case.id != wanted:
                continue
            outcome = execute_case(suite, case)
            failed += bool(outcome.reason)
            rows.append(row(name, outcome))
            print(rows[-1], f"{outcome.seconds:.1f} s", flush=True)
            if given.details and outcome.reason:
                print(outcome.details, flush=True)
    print(f"{len(rows) - failed} of {len(rows)} right", flush=True)
    if given.write:
        head = HEAD.format(arch=ARCH, passed=len(rows) - failed, total=len(rows))
        PAGE.write_text(head + "\n".join(rows) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
