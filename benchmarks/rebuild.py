# SPDX-License-Identifier: MIT
"""How long does a rebuild take after one kernel changed, in the crate padded to 80 kernels?

    python benchmarks/rebuild.py [--kernels 80] [--rounds 5] [--limit 3.0]

The padded crate is a copy with every op file repeated under other names. Each round edits one number in one kernel and
asks for the library, as a launch would. Exit status 1 when the median is above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.build import publish
from tilegym_rs_backend.build import rust_root

ENTRY = re.compile(r"#\[tile::entry[^\]]*\][^{]*?\bfn (\w+)")


def pad(root: Path, kernels: int) -> int:
    """Repeat the op files under other names until the crate has at least `kernels` entries; return how many it has."""
    ops = root / "src" / "ops"
    files = {path.stem: path.read_text(encoding="utf-8") for path in sorted(ops.glob("*.rs")) if path.stem != "mod"}
    count = sum(len(ENTRY.findall(text)) for text in files.values())
    names = list(files)
    copy = 0
    while count < kernels:
        for stem, text in files.items():
            if count >= kernels:
                break
            name = f"{stem}_pad{copy}"
            text = re.sub(rf"\bpub mod {stem}\b", f"pub mod {name}", text)
            for entry in ENTRY.findall(text):
                text = re.sub(rf"\b{entry}\b", f"{entry}_pad{copy}", text)
            (ops / f"{name}.rs").write_text(text, encoding="utf-8")
            names.append(name)
            count += len(ENTRY.findall(text))
        copy += 1
    header = "".join(
        line for line in (ops / "mod.rs").read_text(encoding="utf-8").splitlines(True) if "pub mod" not in line
    )
    (ops / "mod.rs").write_text(header + "".join(f"pub mod {name};\n" for name in sorted(names)), encoding="utf-8")
    return count


def edit(path: Path, turn: int) -> None:
    """Change one number inside a kernel."""
    text = path.read_text(encoding="utf-8")
    text, changed = re.subn(r"1\.44269504\d*f32", f"1.44269504{turn:04d}f32", text, count=1)
    if not changed:
        raise SystemExit(f"{path.name} has no number to change; adapt benchmarks/rebuild.py")
    path.write_text(text, encoding="utf-8")


def cpu_seconds() -> float:
    """Processor time of all finished child processes: what a busy machine does not distort as it does wall time."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=3.0, help="seconds the median may take")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "padded"
        shutil.copytree(rust_root(), root, ignore=shutil.ignore_patterns("target"))
        kernels = pad(root, options.kernels)
        start = time.monotonic()
        ensure_library(root, reason="benchmark, first build of the padded crate")
        first = time.monotonic() - start
        rounds = []
        for turn in range(options.rounds):
            edit(root / "src" / "ops" / "softmax.rs", turn)
            before = cpu_seconds()
            start = time.monotonic()
            library = ensure_library(root)
            published = publish.read(library.parent)
            assert published is not None
            rounds.append(
                {
                    "total": time.monotonic() - start,
                    "cargo": published.manifest["seconds"],
                    "cpu": cpu_seconds() - before,
                }
            )
    median = statistics.median(each["total"] for each in rounds)
    result = {
        "kernels": kernels,
        "cpus": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "first_s": round(first, 2),
        "rounds_s": [round(each["total"], 2) for each in rounds],
        "cpu_s": [round(each["cpu"], 2) for each in rounds],
        "cargo_s": [each["cargo"] for each in rounds],
        "median_s": round(median, 2),
    }
    print(json.dumps(result))
    return 0 if median <= options.limit else 1


if __name__ == "__main__":
    sys.exit(main())
