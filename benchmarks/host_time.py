# SPDX-License-Identifier: MIT
"""Host time of one call in us: softmax of 64x1024 through tilegym.ops under each backend, and torch. Needs a GPU.

    python benchmarks/host_time.py [--out docs/results] [--rounds 30] [--calls 200]

Calls are enqueued without waiting in between; a round ends with a synchronisation outside the clock. The rounds of all
rows are interleaved, and a row's number is the median of its rounds (the best round beside it).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _common

ROWS, COLS = 64, 1024
# Stay well below the depth at which a full launch queue makes the host wait for the device.
MAX_QUEUED = 200


def ops() -> dict[str, Callable[[], Any]]:
    """The rows of the first table."""
    import tilegym
    import torch

    x = torch.randn(ROWS, COLS, device="cuda", dtype=torch.float16)

    def through(backend: str) -> Callable[[], Any]:
        def call() -> Any:
            return tilegym.ops.softmax(x)

        call.backend = backend  # type: ignore[attr-defined]
        return call

    return {
        "tilegym.ops.softmax, cutile_rs": through("cutile_rs"),
        "tilegym.ops.softmax, cutile": through("cutile"),
        "torch.softmax": lambda: torch.softmax(x, -1),
    }


def breakdown() -> dict[str, Callable[[], Any]]:
    """Parts that a call of ours consists of, one by one."""
    import torch

    from tilegym_rs_backend.ops import softmax as module

    x = torch.randn(ROWS, COLS, device="cuda", dtype=torch.float16)
    out = torch.empty_like(x)
    parts: dict[str, Callable[[], Any]] = {
        "empty function": lambda: None,
        "torch.empty_like": lambda: torch.empty_like(x),
        "raw stream": lambda: torch._C._cuda_getCurrentRawStream(0),
        "x.data_ptr() twice": lambda: (x.data_ptr(), out.data_ptr()),
        "x.shape and x.stride()": lambda: (x.shape, x.stride()),
    }
    direct = getattr(module, "softmax", None)
    if callable(direct):
        parts["our op without the dispatcher"] = lambda: direct(x)
    parts["torch.relu (one small torch op)"] = lambda: torch.relu(x)
    return parts


def measure(rows: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, dict[str, float]]:
    """us per call: median and best round, rows interleaved."""
    import tilegym
    import torch

    samples: dict[str, list[float]] = {name: [] for name in rows}
    for index in range(rounds + 3):
        for name, call in rows.items():
            backend = getattr(call, "backend", None)
            if backend:
                tilegym.set_backend(backend)
            for _ in range(10 if index else 50):
                call()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(calls):
                call()
            elapsed = time.perf_counter() - begin
            torch.cuda.synchronize()
            if index >= 3:
                samples[name].append(elapsed / calls * 1e6)
    return {name: {"median_us": statistics.median(v), "best_us": min(v)} for name, v in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=MAX_QUEUED, help=f"per round, at most {MAX_QUEUED}")
    parser.add_argument("--only", nargs="*", choices=("cutile_rs", "cutile", "torch"), default=None)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    os.environ["DISABLE_FALLBACK"] = "1"
    import torch

    if not torch.cuda.is_available():
        print("NOT-RUN host_time.py needs a CUDA device")
        return 1
    from tilegym_rs_backend import registration

    registration.register()
    from pytest_cutile_rs.peers.cutile_python import CutilePython

    with contextlib.suppress(Exception):  # without our toolkit, cuTile Python looks for a tileiras of its own
        CutilePython().share_tileiras()
    rows = ops()
    if args.only is not None:
        rows = {n: c for n, c in rows.items() if getattr(c, "backend", "torch") in args.only}
    failed = {}
    for name, call in list(rows.items()):
        try:
            measure({name: call}, 1, 1)
        except Exception as problem:
            failed[name] = f"{type(problem).__name__}: {problem}"
            del rows[name]
    calls = min(args.calls, MAX_QUEUED)
    with torch.no_grad():
        found = measure(rows, args.rounds, calls)
        parts = measure(breakdown(), args.rounds, calls)
    facts = _common.provenance("host_time.py") | {"gpu": torch.cuda.get_device_name(), "calls_per_round": calls}

    def lines(values: dict[str, dict[str, float]]) -> str:
        return _common.table(
            ("what", "median us", "best us"),
            [(name, f"{v['median_us']:.2f}", f"{v['best_us']:.2f}") for name, v in values.items()],
        )

    text = f"# Host time of softmax {ROWS}x{COLS} f16\n\n{_common.facts_text(facts)}\n\n{lines(found)}\n\n"
    text += f"Parts:\n\n{lines(parts)}"
    for name, why in failed.items():
        text += f"\n\nNot run: {name}: {why}"
    _common.write(args.out, "host-time", {"facts": facts, "ops": found, "parts": parts, "failed": failed}, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
