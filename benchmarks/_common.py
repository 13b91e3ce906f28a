# SPDX-License-Identifier: MIT
"""What the benchmark scripts share: the record of how a number was made, and where it is written."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PACKAGES = ("tilegym-rs", "torch", "tilegym", "cuda-tile", "triton", "cupti-python", "nvidia-cuda-cupti")


def provenance(script: str) -> dict[str, Any]:
    """Date, versions and the command, without paths of this machine."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["python", f"benchmarks/{script}", *_portable(sys.argv[1:])]),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _portable(arguments: Iterable[str]) -> list[str]:
    return [Path(a).name if a.startswith("/") else a for a in arguments]


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A markdown table."""
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    lines += [f"| {' | '.join(str(cell) for cell in row)} |" for row in rows]
    return "\n".join(lines)


def facts_text(facts: dict[str, Any]) -> str:
    """The facts as a markdown list."""
    return "\n".join(f"- {key}: {value}" for key, value in facts.items())


def write(out: Path | None, stem: str, data: dict[str, Any], markdown: str) -> None:
    """Print the markdown; with ``out`` also write ``<stem>.json`` and ``<stem>.md`` there."""
    print(markdown, flush=True)
    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{stem}.json").write_text(json.dumps(data, indent=1) + "\n")
    (out / f"{stem}.md").write_text(markdown + "\n")


def shard(text: str) -> tuple[int, int]:
    """Parse ``i/n`` with 1 <= i <= n."""
    index, _, count = text.partition("/")
    found = int(index), int(count)
    if not 1 <= found[0] <= found[1]:
        raise ValueError(f"a shard is i/n with 1 <= i <= n, not {text}")
    return found
