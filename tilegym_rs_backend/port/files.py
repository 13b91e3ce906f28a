# SPDX-License-Identifier: MIT
"""What porting an op leaves behind, and whether a folder holds all of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ANALYSIS = "analysis.json"
SUMMARY = "summary.json"
SOURCES = "sources"
DUMPS = "ir"
CUBINS = "cubins"
CORRECTNESS = "correctness.log"
PERFORMANCE = "performance.log"
DIFFERENCES = "differences.txt"

FIXED = (ANALYSIS, SUMMARY, CORRECTNESS, PERFORMANCE, DIFFERENCES)
"""Files that are always there; what is in the three folders follows from the summary's launches."""

_ANALYSIS_KEYS = {
    "op": str,
    "arch": str,
    "versions": dict,
    "kernels": list,
    "dtypes": list,
    "tolerances": dict,
    "baseline": str,
    "not_compared": list,
}
_LAUNCH_KEYS = {"kernel": str, "case": str, "grid": list, "constants": dict, "hints": dict, "configurations": int}
_RESULT_KEYS = {"kernel": str, "case": str, "verdict": str, "detail": str, "stem": str}


def write_json(folder: Path, name: str, value: Any) -> None:
    """Write one of the JSON files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(value, indent=1, default=str) + "\n", encoding="utf-8")


def write(folder: Path, name: str, content: str | bytes) -> None:
    """Write one file below the folder."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def validate(folder: Path) -> list[str]:
    """Return what is wrong with a folder: missing files, malformed JSON, verdicts that the cubins do not bear out."""
    missing = [f"{name} is missing" for name in FIXED if not (folder / name).is_file()]
    if missing:
        return missing
    problems: list[str] = []
    analysis = _read(folder, ANALYSIS, problems)
    summary = _read(folder, SUMMARY, problems)
    if problems:
        return problems
    problems += _shape(analysis, _ANALYSIS_KEYS, ANALYSIS)
    for index, launch in enumerate(analysis.get("kernels", [])):
        problems += _shape(launch, _LAUNCH_KEYS, f"{ANALYSIS}: kernels[{index}]")
    results = summary.get("launches")
    if not isinstance(results, list):
        return [*problems, f"{SUMMARY}: launches is no list"]
    for index, result in enumerate(results):
        wrong = _shape(result, _RESULT_KEYS, f"{SUMMARY}: launches[{index}]")
        problems += wrong or _check(folder, result)
    return problems


def _read(folder: Path, name: str, problems: list[str]) -> Any:
    try:
        found = json.loads((folder / name).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        problems.append(f"{name} cannot be read: {error}")
        return {}
    if not isinstance(found, dict):
        problems.append(f"{name} holds no object")
        return {}
    return found


def _shape(value: Any, keys: Mapping[str, type], where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where} is no object"]
    wrong = [f"{where}: {key} is missing" for key in keys if key not in value]
    wrong += [
        f"{where}: {key} is no {kind.__name__}"
        for key, kind in keys.items()
        if key in value and not isinstance(value[key], kind)
    ]
    return wrong


def _check(folder: Path, result: dict[str, Any]) -> list[str]:
    """A launch's files, and that equal machine code is what the cubins hold."""
    if result["verdict"] not in ("SASS-IDENTICAL", "SASS-DIFFERENT"):
        return []
    stem = result["stem"]
    names = [f"{DUMPS}/{stem}.{side}.txt" for side in ("ours", "theirs")]
    names += [f"{CUBINS}/{stem}.{side}.cubin" for side in ("ours", "theirs")]
    names += [f"{SOURCES}/{result.get('entry')}.rs"]
    missing = [f"{name} is missing" for name in names if not (folder / name).is_file()]
    if missing:
        return missing
    from ..tile_ir.cubin import read_cubin

    ours, theirs = (read_cubin((folder / f"{CUBINS}/{stem}.{side}.cubin").read_bytes()) for side in ("ours", "theirs"))
    same = ours.only().text == theirs.only().text
    if same != (result["verdict"] == "SASS-IDENTICAL"):
        return [f"{stem}: the cubins' code is {'equal' if same else 'not equal'}, the verdict is {result['verdict']}"]
    return []
