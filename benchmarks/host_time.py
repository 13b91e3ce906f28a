# SPDX-License-Identifier: MIT
"""Host time of one call in us: softmax of 64x1024 through tilegym.ops under each backend, and torch; and redirected ops
(TileGym's cuTile wrappers over translated kernels) against backend cutile. Needs a GPU.

    python benchmarks/host_time.py [--out docs/results] [--rounds 30] [--calls 200]
    python benchmarks/host_time.py --redirected bmm,mla_decoding

Calls are enqueued without waiting in between; a round ends with a synchronisation outside the clock. The rounds of all
rows are interleaved, every other one in reverse order. A row has the median of its rounds and the best one, a ratio is
the median of the rounds' ratios.
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
REDIRECTED = ("bmm", "group_gemm", "mla_decoding", "fmha_decode", "linear_gluact_linear", "moe_align_block_size")
WORST = 1.0
"""Of t_cutile / t_cutile_rs; below it the run fails."""


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


def redirected(names: list[str], device: str = "cuda") -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Rows ``"op, backend"`` of the smallest case of each op, and ops that could not be called, with the reason."""
    from pytest_cutile_rs.suites import suites
    from tilegym_rs_backend.registration import native_ops

    known = {name: suite for name, suite in suites().items() if name not in native_ops()}
    rows: dict[str, Callable[[], Any]] = {}
    failed: dict[str, str] = {}
    for name in known if names == ["all"] else names:
        if name not in known:
            failed[name] = f"it has native kernels or no cases; known are {', '.join(known)}"
            continue
        suite = known[name]
        cases = [case for case in suite.cases if not case.raises and 0 not in case.shape]
        case = min(cases, key=suite.bytes_moved)
        inputs = suite.inputs(case, device, 0)
        for backend in ("cutile", "cutile_rs"):
            rows[f"{name}, {backend}"] = _call_of(suite, inputs, backend)
    return rows, failed


def _call_of(suite: Any, inputs: Any, backend: str) -> Callable[[], Any]:
    def call() -> Any:
        return suite.call(inputs)

    call.backend = backend  # type: ignore[attr-defined]
    return call


def python_calls(call: Callable[[], Any]) -> int:
    """Python functions entered by one call, the call itself not counted."""
    entered = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal entered
        entered += event == "call"

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered - 1


def compared(found: dict[str, dict[str, Any]], calls: dict[str, int]) -> dict[str, dict[str, float]]:
    """Per op: both medians, t_cutile / t_cutile_rs, and Python calls of both."""
    table = {}
    for name in dict.fromkeys(row.rpartition(", ")[0] for row in found):
        sides = {backend: f"{name}, {backend}" for backend in ("cutile", "cutile_rs")}
        if not set(sides.values()) <= found.keys():
            continue
        theirs, ours = (found[sides[backend]] for backend in ("cutile", "cutile_rs"))
        table[name] = {
            "cutile_us": theirs["median_us"],
            "cutile_rs_us": ours["median_us"],
            "ratio": statistics.median(t / o for t, o in zip(theirs["rounds"], ours["rounds"], strict=True)),
            "cutile_calls": calls[sides["cutile"]],
            "cutile_rs_calls": calls[sides["cutile_rs"]],
        }
    return table


def measure(rows: dict[str, Callable[[], Any]], rounds: int, calls: int) -> dict[str, dict[str, Any]]:
    """us per call: median, best, and every round; rows interleaved."""
    import tilegym
    import torch

    samples: dict[str, list[float]] = {name: [] for name in rows}
    for index in range(rounds + 3):
        for name, call in list(rows.items())[:: -1 if index % 2 else 1]:
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
    return {name: {"median_us": statistics.median(v), "best_us": min(v), "rounds": v} for name, v in samples.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=MAX_QUEUED, help=f"per round, at most {MAX_QUEUED}")
    parser.add_argument("--only", nargs="*", choices=("cutile_rs", "cutile", "torch"), default=None)
    parser.add_argument("--redirected", default=",".join(REDIRECTED), metavar="OP,OP", help="all, or none: ''")
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
    names = [name for name in args.redirected.split(",") if name]
    through, failed = redirected(names) if args.only is None else ({}, {})
    rows = ops()
    if args.only is not None:
        rows = {n: c for n, c in rows.items() if getattr(c, "backend", "torch") in args.only}
    for group in (rows, through):
        for name, call in list(group.items()):
            try:
                measure({name: call}, 1, 1)
            except Exception as problem:
                failed[name] = f"{type(problem).__name__}: {problem}"
                del group[name]
    calls = min(args.calls, MAX_QUEUED)
    with torch.no_grad():
        found = measure(rows, args.rounds, calls)
        parts = measure(breakdown(), args.rounds, calls)
        pairs = compared(measure(through, args.rounds, calls), {name: _counted(call) for name, call in through.items()})
    facts = _common.provenance("host_time.py") | {"gpu": torch.cuda.get_device_name(), "calls_per_round": calls}

    def lines(values: dict[str, dict[str, Any]]) -> str:
        return _common.table(
            ("what", "median us", "best us"),
            [(name, f"{v['median_us']:.2f}", f"{v['best_us']:.2f}") for name, v in values.items()],
        )

    text = f"# Host time of softmax {ROWS}x{COLS} f16\n\n{_common.facts_text(facts)}\n\n{lines(found)}\n\n"
    text += f"Parts:\n\n{lines(parts)}"
    if pairs:
        head = ("op", "cutile us", "cutile_rs us", "t_cutile / t_cutile_rs", "Python calls, cutile", "cutile_rs")
        cells = [
            (name, *(f"{p[key]:.1f}" for key in ("cutile_us", "cutile_rs_us")), f"{p['ratio']:.2f}", *map(str, counts))
            for name, p in pairs.items()
            for counts in [(p["cutile_calls"], p["cutile_rs_calls"])]
        ]
        text += f"\n\nRedirected ops, smallest case of each:\n\n{_common.table(head, cells)}"
    for name, why in failed.items():
        text += f"\n\nNot run: {name}: {why}"
    _common.write(
        args.out,
        "host-time",
        {"facts": facts, "ops": found, "parts": parts, "redirected": pairs, "failed": failed},
        text,
    )
    worse = [name for name, p in pairs.items() if p["ratio"] < WORST]
    if worse:
        print(f"FAIL host time is worse than backend cutile's: {', '.join(worse)}")
    return 1 if worse else 0


def _counted(call: Callable[[], Any]) -> int:
    import tilegym

    tilegym.set_backend(call.backend)  # type: ignore[attr-defined]
    call()
    return python_calls(call)


if __name__ == "__main__":
    sys.exit(main())
