# SPDX-License-Identifier: MIT
"""The files that porting an op leaves in its folder: the only list of them, and each is written by one rename."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .. import atomic

ANALYSIS = "analysis.json"
"""What is to be ported: launches, variants, constants, tolerances, tuning spaces, baselines."""
SUMMARY = "summary.json"
"""What came out, launch by launch and stage by stage."""
STATE = "state.json"
"""Per stage: what it was made from, its verdict, its files' hashes; on the same inputs it is not repeated."""
CORRECTNESS = "correctness.log"
"""Both sides executed on the CPU, bit by bit."""
HOST = "host.log"
"""Exports and redirect."""
PERFORMANCE = "performance.log"
"""The gate's verdicts, or why it did not run."""
DIFFERENCES, DIFFERENCES_TEXT = "differences.json", "differences.txt"
"""The IR-difference report: categories, whose fault, why."""
RESIDUAL, RESIDUAL_TEXT = "residual.json", "residual.txt"
"""The residual-performance report: what of a launch is not its peer's, on the device and on the host."""
SOURCES, DUMPS, CUBINS, SUPPLIED = "sources", "ir", "cubins", "supplied"
"""Folders: Rust texts; Tile IR of both sides (text and bytecode); machine code of both sides; refusals handed on."""

FIXED = (
    ANALYSIS,
    SUMMARY,
    STATE,
    CORRECTNESS,
    HOST,
    PERFORMANCE,
    DIFFERENCES,
    DIFFERENCES_TEXT,
    RESIDUAL,
    RESIDUAL_TEXT,
)
"""Files that are always there; what is in the folders follows from the summary's launches."""

SIDES = ("ours", "theirs")
NONE = "none\n"
"""The text of a report that has nothing to report."""


def source_file(entry: str) -> str:
    """The Rust text of an entry."""
    return f"{SOURCES}/{entry}.rs"


def dump_file(stem: str, side: str) -> str:
    """One side's Tile IR of a launch, as text."""
    return f"{DUMPS}/{stem}.{side}.txt"


def bytecode_file(stem: str, side: str) -> str:
    """One side's Tile IR of a launch."""
    return f"{DUMPS}/{stem}.{side}.tileirbc"


def cubin_file(stem: str, side: str) -> str:
    """One side's machine code of a launch."""
    return f"{CUBINS}/{stem}.{side}.cubin"


def launch_files(stem: str, entry: str) -> list[str]:
    """All files of a launch whose both sides were assembled."""
    kinds = (dump_file, bytecode_file, cubin_file)
    return [source_file(entry), *(kind(stem, side) for kind in kinds for side in SIDES)]


def json_text(value: Any) -> str:
    """JSON as the files hold it."""
    return json.dumps(value, indent=1, default=str) + "\n"


def write(folder: Path, name: str, content: str | bytes) -> str:
    """Write one file so that a reader finds the old one or the new one, never a part; returns its name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write(path, content)
    return name


def read_json(folder: Path, name: str) -> Any:
    """Read a JSON object; None where there is none that can be read."""
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def sha256(folder: Path, name: str) -> str:
    """The hash of a file, empty where it cannot be read."""
    try:
        return hashlib.sha256((folder / name).read_bytes()).hexdigest()
    except OSError:
        return ""
