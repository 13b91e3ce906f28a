# SPDX-License-Identifier: MIT
"""How long does a CPU take to execute a kernel's bytecode, with and without the checks?

    python benchmarks/execution.py [--rounds 5] [--only softmax]

The kernels are TileGym's own in cuTile Python, captured and compiled beforehand: softmax 4096x1000 f16, matmul 1024^3
f16, causal attention over 32 heads x 512 x 64 f16. Prints one JSON line; exit status 1 when the best round of a
kernel, checked, is above its limit, or above 3 times the unchecked one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from _common import provenance

LIMITS = {"softmax": 0.5, "matmul": 0.3, "fmha": 0.5}
"""Seconds, checked."""
CHECKS_FACTOR = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=sorted(LIMITS))
    options = parser.parse_args()
    found = {name: measure(name, options.rounds) for name in LIMITS if options.only in (None, name)}
    missed = sorted(name for name, one in found.items() if one["missed"])
    line = {"kernels": found, "missed": missed, "load": os.getloadavg()[0], "cpus": os.cpu_count()}
    print(json.dumps(line | provenance("execution.py")))
    return 1 if missed else 0


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Best wall and processor seconds of a kernel, checked and unchecked."""
    from tilegym_rs_backend.tile_ir.execute import Options

    run = prepared(name)
    times: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    for checks in (True, False):
        run(Options(checks=checks))  # closures are made, memory is touched
    for _ in range(rounds):
        for checks, kept in times.items():
            wall, cpu = time.perf_counter(), time.process_time()
            run(Options(checks=checks))
            kept.append((time.perf_counter() - wall, time.process_time() - cpu))
    best = {checks: [min(column) for column in zip(*kept, strict=True)] for checks, kept in times.items()}
    return verdict(name, *best[True], *best[False])


def verdict(name: str, wall: float, cpu: float, unchecked_wall: float, unchecked_cpu: float) -> dict[str, Any]:
    """The figures, and whether they keep their limits; the factor is one of processor time."""
    factor = cpu / unchecked_cpu if unchecked_cpu else float("inf")
    return {
        "checked_s": round(wall, 4),
        "checked_cpu_s": round(cpu, 4),
        "unchecked_s": round(unchecked_wall, 4),
        "unchecked_cpu_s": round(unchecked_cpu, 4),
        "checks_factor": round(factor, 3),
        "limit_s": LIMITS[name],
        "missed": wall > LIMITS[name] or factor > CHECKS_FACTOR,
    }


def prepared(name: str) -> Callable[[Any], Any]:
    """A function that executes the kernel with some options; its result is checked once against torch."""
    import torch

    from tilegym_rs_backend.port.capture import capture
    from tilegym_rs_backend.port.capture import import_tilegym
    from tilegym_rs_backend.port.execute import arguments
    from tilegym_rs_backend.port.stored import bytecode
    from tilegym_rs_backend.tile_ir.execute import run_launch

    tilegym = import_tilegym()
    tilegym.set_backend("cutile")
    torch.manual_seed(0)
    call, want = calls(tilegym.ops)[name]
    results: list[Any] = []
    with torch.no_grad():
        [launch] = capture(lambda: results.append(call()), device="cpu")
    program, given = bytecode(launch, singleton_extents=False), list(arguments(launch))

    def run(options: Any) -> Any:
        return run_launch(program, launch.grid, given, options=options)

    run(None)
    got = results[0][0] if isinstance(results[0], tuple) else results[0]
    torch.testing.assert_close(got.double(), want().double(), rtol=1e-2, atol=1e-2)
    return run


def calls(ops: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """By name: the call of TileGym's op, and the same in torch."""
    import torch

    half = torch.float16
    x = torch.randn(4096, 1000).to(half)
    a, b = (torch.randn(1024, 1024).mul(0.1).to(half) for _ in range(2))
    q, k, v = (torch.randn(1, 32, 512, 64).to(half) for _ in range(3))

    def attention() -> torch.Tensor:
        wide = (each.float() for each in (q, k, v))
        return torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=True, scale=0.125)

    return {
        "softmax": (lambda: ops.softmax(x, backend="cutile"), lambda: torch.softmax(x.float(), -1)),
        "matmul": (lambda: ops.matmul(a, b, backend="cutile"), lambda: a.float() @ b.float()),
        "fmha": (lambda: ops.fmha(q, k, v, scaling=0.125, is_causal=True, backend="cutile"), attention),
    }


if __name__ == "__main__":
    sys.exit(main())
