# SPDX-License-Identifier: MIT
"""How long tuning takes, and whether the offline ranking is right. Needs a GPU, and a bundle made with --tuned.

    python benchmarks/tuning.py cold --out DIR       # first call of matmul 4096^3: cubins prepared, then without; again
    python benchmarks/tuning.py ranking --out DIR    # every candidate of every plan measured, in the plan's order
    python benchmarks/tuning.py prepare              # the offline commands whose result the two need (no GPU)

Writes tuning-<part>.json and .md. `ranking` takes --limit seconds and --match; it measures in this process, since the
plans' candidates have run before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _common

# (op, dtype, shapes). Looked at while the model and the defaults were written.
FITTED = (
    ("matmul", "bf16", "1024x1024x1024 2048x2048x2048 4096x4096x4096 8192x8192x8192 4096x8192x2728"),
    ("matmul", "bf16", "4096x14336x4096 4096x4096x14336 2048x6144x4096 1024x8192x1024 256x4096x4096 64x14336x4096"),
    ("matmul", "bf16", "16384x1024x1024 3072x3072x768 640x5120x2560"),
    ("matmul", "f16", "4096x4096x4096 3072x6144x2720 8192x2048x2048 128x8192x8192"),
    ("matmul", "f32", "2048x2048x2048 1024x4096x2048"),
    ("matmul", "f8e5m2", "4096x4096x4096 8192x8192x8192 2048x4096x7168"),
    ("softmax", "f32", "4096x6144"),
    ("softmax", "bf16", "16384x1536"),
    ("silu_and_mul", "bf16", "8192x11008"),
    ("silu_and_mul", "f16", "32768x2048"),
)
# Never looked at: projections of language models, tall and flat products, extents that are no powers of two, other ops.
HELD_OUT = (
    ("matmul", "bf16", "1536x1536x1536 2560x10240x2560 512x8192x4096 96x5120x5120 32768x512x2048 1280x1280x8192"),
    ("matmul", "bf16", "7168x2048x1024 5120x5120x5120 2304x2304x4608"),
    ("matmul", "bf16", "192x7168x2048 768x768x768 12288x1536x3072"),
    ("matmul", "f16", "384x1024x6144 6144x4608x1536 3584x3584x3584"),
    ("matmul", "f32", "3072x1024x1024 4096x4096x1024"),
    ("matmul", "f8e5m2", "3072x4096x4096 1024x2048x4096"),
    ("matmul", "f8e4m3", "4096x8192x2048"),
    ("softmax", "bf16", "2048x20000 1024x4096"),
    ("softmax", "f32", "8192x300 32768x1000"),
    ("silu_and_mul", "f32", "4096x4096 1000x13824"),
    ("fmha", "bf16", "4x16x16x3072x3072x64"),
)
WITHIN = 0.03
FIRST = 3
CHILD = """
import json, time
begin = time.perf_counter()
import torch
from tilegym_rs_backend import tune
from tilegym_rs_backend.ops.matmul import matmul
a, b = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
torch.cuda.synchronize()
ready = time.perf_counter()
with tune.questions() as asked:
    matmul(a, b)
torch.cuda.synchronize()
first = time.perf_counter()
choice = asked[0].choice
print(json.dumps({"import_s": ready - begin, "first_call_s": first - ready, "choice": choice and choice.report()}))
"""


def prepare() -> int:
    """Print what has to be run where cargo and tileiras are, before `tilegym-rs bundle --aot sm_90 --tuned`."""
    for op, dtype, shapes in (*FITTED, *HELD_OUT):
        print(f"tilegym-rs tune {op} --offline --arch sm_90 --dtypes {dtype} --shapes {','.join(shapes.split())}")
    return 0


def child(cache: Path) -> dict[str, Any]:
    """First call in a process of its own over a cache."""
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "TILEGYM_RS_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:], "wall_s": time.perf_counter() - begin}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found | {"wall_s": time.perf_counter() - begin}


def cold() -> tuple[dict[str, Any], str]:
    """Time the first call with plans and cubins, again in a second process, and with the library alone."""
    from tilegym_rs_backend.toolchain.dirs import cache_dir

    source = cache_dir()
    data: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        prepared, bare = Path(folder, "prepared"), Path(folder, "bare")
        for target, parts in ((prepared, ("build", "store", "tune")), (bare, ("build",))):
            target.mkdir(mode=0o700)
            for part in parts:
                if (source / part).is_dir():
                    shutil.copytree(source / part, target / part)
        forget_choices(prepared / "tune")
        data["prepared"] = child(prepared)
        data["second process"] = child(prepared)
        data["not prepared"] = child(bare)
    rows = []
    for name, each in data.items():
        choice = each.get("choice") or {}
        measured = sum(1 for one in choice.get("tried", ()) if one["us"])
        seconds = f"{each['first_call_s']:.2f}" if "first_call_s" in each else str(each["error"])
        rows.append((name, seconds, f"{each['wall_s']:.1f}", choice.get("chosen", ""), choice.get("us", ""), measured))
    header = ("cache", "first call s", "process s", "chosen", "us", "measured")
    return data, f"## matmul bf16 4096^3, first call\n\n{_common.table(header, rows)}"


def forget_choices(folder: Path) -> None:
    """Remove what was measured and leave the plans."""
    for path in folder.glob("*/*.json"):
        if json.loads(path.read_text())["key"]["gpu"]:
            path.unlink()


def ranking(match: str, limit: float, samples: int) -> tuple[dict[str, Any], str]:
    """Measure every candidate of the plans for this GPU's architecture, and say where the fastest was ranked."""
    import torch

    from tilegym_rs_backend.tuning.measure import Failed

    rows, results = [], []
    begin = time.perf_counter()
    left_out = 0
    for held, op, dtype, shape in problems():
        name = f"{op} {dtype} {shape}"
        if not re.search(match, name):
            continue
        if time.perf_counter() - begin > limit:
            left_out += 1
            continue
        try:
            found = measured(op, dtype, shape, samples)
        except (Failed, RuntimeError) as error:
            results.append({"name": name, "held_out": held, "error": str(error)})
            rows.append((name, "", "", "", "", "", str(error)[:60]))
            continue
        finally:
            torch.cuda.empty_cache()
        results.append({"name": name, "held_out": held, **found})
        rows.append(row(name, held, found))
        print(" | ".join(map(str, rows[-1])), flush=True)
    judged = [each for each in results if "first_three" in each]
    lines = []
    for words, some in (
        ("all", judged),
        ("used for the model", [each for each in judged if not each["held_out"]]),
        ("never used", [each for each in judged if each["held_out"]]),
    ):
        good = sum(1 for each in some if each["first_three"] <= 1 + WITHIN)
        share = f" = {good / len(some):.0%}" if some else ""
        lines.append(f"- {words}: first {FIRST} within {WITHIN:.0%} of the best in {good} of {len(some)}{share}")
    if left_out:
        lines.append(f"- not measured within {limit:g} s: {left_out}")
    header = ("problem", "candidates", "best us", "rank", "first three / best", "default / best", "cuBLAS / best")
    return {"results": results, "left_out": left_out}, f"{_common.table(header, rows)}\n\n" + "\n".join(lines)


def problems() -> list[tuple[bool, str, str, str]]:
    """Return (held out, op, dtype, shape) of each problem."""
    return [
        (held, op, dtype, shape)
        for held, some in ((False, FITTED), (True, HELD_OUT))
        for op, dtype, shapes in some
        for shape in shapes.split()
    ]


def measured(op: str, dtype: str, shape: str, samples: int) -> dict[str, Any]:
    """Return every fit candidate of a problem's plan with its predicted and measured microseconds, ranked.

    Measured without the floor that a launch's events have, so that ratios are those of the kernels.
    """
    import dataclasses

    import torch

    from tilegym_rs_backend.target import target_of_device
    from tilegym_rs_backend.tune import machine_of
    from tilegym_rs_backend.tune import plan_offline
    from tilegym_rs_backend.tuning.job import LaunchJob
    from tilegym_rs_backend.tuning.job import Spec
    from tilegym_rs_backend.tuning.measure import Failed
    from tilegym_rs_backend.tuning.space import show
    from tilegym_rs_backend.tuning.space import text
    from tilegym_rs_backend.warm import questions

    begin = time.perf_counter()
    device = torch.cuda.current_device()
    extents = tuple(int(extent) for extent in shape.split("x"))
    target = target_of_device(device)
    [asked] = questions(op, [extents], [dtype], arch=target.arch)
    plan = plan_offline(dataclasses.replace(asked, target=target))
    space = asked.space
    default = show(space.default(asked.problem, machine_of(target)))
    tried = [each for each in plan.tried if not each.why]
    configs = [default, *[dict(each.config) for each in tried]]
    planned = time.perf_counter()
    job = LaunchJob(Spec(space.launch.__module__, space.name, asked.problem, tuple(configs), device), ())
    times: dict[int, list[float]] = {}
    failed: dict[int, str] = {}
    for index in range(len(configs)):
        try:
            job.prepare(index)
            times[index] = []
        except Failed as error:
            failed[index] = str(error)
    prepared = time.perf_counter()
    floor = job.floor()
    for _ in range(samples):
        for index, some in times.items():
            some.append(job.sample(index))
    us = {index: statistics.median(some) - floor for index, some in times.items()}
    ranked = [us[index + 1] for index in range(len(tried)) if index + 1 in us]
    best = min(us.values())
    return {
        "best_us": best,
        "rank": ranked.index(min(ranked)) + 1,
        "first_three": min(ranked[:FIRST]) / best,
        "default": us[0] / best if 0 in us else None,
        "cublas": (cublas(extents, dtype, job, samples) - floor) / best if op == "matmul" else None,
        "floor_us": floor,
        "seconds": {
            "plan": planned - begin,
            "prepare": prepared - planned,
            "sample": time.perf_counter() - prepared,
        },
        "candidates": [
            {
                "config": text(each.config),
                "predicted_us": each.predicted_us,
                "us": us.get(index + 1),
                "why": failed.get(index + 1, ""),
                "resources": dict(each.resources),
            }
            for index, each in enumerate(tried)
        ],
    }


def cublas(extents: tuple[int, ...], dtype: str, job: Any, samples: int) -> float:
    """Return torch's median for the same product, NaN where torch has none."""
    import torch

    from tilegym_rs_backend.tensors import torch_dtype

    kind = torch_dtype(dtype)
    if kind.itemsize == 1:
        return float("nan")
    torch.backends.cuda.matmul.allow_tf32 = True
    m, n, k = extents
    a = torch.randn(m, k, device="cuda").mul_(0.5).to(kind)
    b = torch.randn(k, n, device="cuda").mul_(0.5).to(kind)
    out = torch.empty(m, n, device="cuda", dtype=kind)
    torch.mm(a, b, out=out)
    return statistics.median(job.time(lambda: torch.mm(a, b, out=out)) for _ in range(samples))


def row(name: str, held: bool, found: dict[str, Any]) -> tuple[Any, ...]:
    def show(value: float | None) -> str:
        return "" if value is None or value != value else f"{value:.3f}"

    return (
        name + (" *" if held else ""),
        len(found["candidates"]),
        f"{found['best_us']:.2f}",
        found["rank"],
        show(found["first_three"]),
        show(found["default"]),
        show(found["cublas"]),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("prepare", "cold", "ranking"))
    parser.add_argument("--match", default="", help="regular expression on 'dtype MxNxK' (ranking)")
    parser.add_argument("--limit", type=float, default=90.0, help="seconds; later problems are left out (ranking)")
    parser.add_argument("--samples", type=int, default=9, help="of each candidate (ranking)")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.part == "prepare":
        return prepare()
    begin = time.perf_counter()
    data, text = cold() if args.part == "cold" else ranking(args.match, args.limit, args.samples)
    facts = _common.provenance("tuning.py") | {"seconds": round(time.perf_counter() - begin, 1)}
    _common.write(args.out, f"tuning-{args.part}", {"facts": facts, **data}, f"{_common.facts_text(facts)}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
