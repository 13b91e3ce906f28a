# SPDX-License-Identifier: MIT
"""Check an op's folder again: that all files are there and unchanged, and that the verdicts follow from them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import TilegymRsError
from ..tile_ir import verdict as tile_ir_verdict
from ..tile_ir.cubin import read_cubin
from ..tile_ir.printer import show
from ..tile_ir.reader import read_module
from . import files
from . import residual
from .comparison import DIFFERENT
from .comparison import IDENTICAL
from .comparison import kernel_of
from .entries import named
from .journal import FAIL
from .journal import STAGES
from .journal import STATUSES
from .schema import problems
from .schema import schema
from .selfcheck import reports
from .selfcheck import verdict_of
from .work import summary_of

_COMPARED = (IDENTICAL, DIFFERENT)


def validate(folder: Path) -> list[str]:
    """Return what is wrong with a folder that `tilegym-rs port` wrote, one line each; empty where nothing is."""
    missing = [f"{name} is missing" for name in files.FIXED if not (folder / name).is_file()]
    if missing:
        return missing
    read = {name: files.read_json(folder, name) for name in files.FIXED if name.endswith(".json")}
    broken = [f"{name} holds no JSON object" for name, content in read.items() if content is None]
    if broken:
        return broken
    analysis, summary, state = read[files.ANALYSIS], read[files.SUMMARY], read[files.STATE]
    wrong = list(problems(analysis, schema("analysis"), files.ANALYSIS))
    wrong += [*problems(summary, schema("summary"), files.SUMMARY), *_state(folder, state)]
    for name, member in ((files.DIFFERENCES, "launches"), (files.RESIDUAL, "reports")):
        wrong += problems(read[name], _list_of(member), name)
    if wrong:
        return wrong
    for check in (_summary, _launches, _reports, _stages):
        wrong += check(folder, read)
    return wrong


def _list_of(member: str) -> dict[str, Any]:
    """The schema of a report: a list of objects under one name."""
    objects = {"type": "array", "items": {"type": "object"}}
    return {"type": "object", "required": [member], "additionalProperties": False, "properties": {member: objects}}


def _state(folder: Path, state: dict[str, Any]) -> Iterator[str]:
    """Every stage with a verdict, and every file as its stage left it."""
    stages = state.get("stages")
    if not isinstance(stages, dict) or list(stages) != list(STAGES):
        yield f"{files.STATE}: the stages are {list(stages or ())}, not {', '.join(STAGES)}"
        return
    for name, stage in stages.items():
        if not isinstance(stage, dict) or not {"inputs", "status", "reason", "files", "data"} <= stage.keys():
            yield f"{files.STATE}: stage {name} is not complete"
            continue
        if not isinstance(stage["files"], dict) or not isinstance(stage["data"], dict):
            yield f"{files.STATE}: files and data of stage {name} are no objects"
            continue
        if stage["status"] not in STATUSES:
            yield f"{files.STATE}: stage {name} ended in {stage['status']!r}"
        for file, digest in stage["files"].items():
            if files.sha256(folder, file) != digest:
                yield f"{file} is not what stage {name} wrote"


def _summary(_: Path, read: dict[str, Any]) -> Iterator[str]:
    """The summary says what state and analysis say."""
    analysis, summary, stages = read[files.ANALYSIS], read[files.SUMMARY], read[files.STATE]["stages"]
    verdicts = {name: {"status": stage["status"], "reason": stage["reason"]} for name, stage in stages.items()}
    rows = stages["self-check"]["data"].get("launches", [])
    wanted = summary_of(analysis["op"], analysis["arch"], verdicts, rows)
    for name, value in wanted.items():
        if summary[name] != value:
            yield f"{files.SUMMARY}: {name} is not what {files.STATE} and {files.ANALYSIS} say"
    shared = ("stem", "kernel", "module", "case", "key")
    ours, planned = ([[row[n] for n in shared] for row in each] for each in (rows, analysis["launches"]))
    if rows and ours != planned:
        yield f"{files.SUMMARY}: its launches are not those of {files.ANALYSIS}"


def _launches(folder: Path, read: dict[str, Any]) -> Iterator[str]:
    """Each launch's files, and that its verdicts are what they hold."""
    for result in read[files.SUMMARY]["launches"]:
        if result["verdict"] not in _COMPARED:
            continue
        names = files.launch_files(result["stem"], result["entry"])
        missing = [name for name in names if not (folder / name).is_file()]
        if missing:
            yield from (f"{name} is missing" for name in missing)
            continue
        try:
            yield from _launch(folder, result, read[files.ANALYSIS]["arch"])
        except (TilegymRsError, StopIteration) as error:
            yield f"{result['stem']}: a file of it cannot be read: {error}"


def _launch(folder: Path, result: dict[str, Any], arch: str) -> Iterator[str]:
    stem, entry = result["stem"], result["entry"]
    text = (folder / files.source_file(entry)).read_text(encoding="utf-8")
    if result["origin"] == "translated" and _name_of(text, entry) != entry:
        yield f"{files.source_file(entry)}: the text is not the one that its name stands for"
    code = [read_cubin((folder / files.cubin_file(stem, side)).read_bytes()).only().text for side in files.SIDES]
    if (code[0] == code[1]) != (result["verdict"] == IDENTICAL):
        same = "equal" if code[0] == code[1] else "not equal"
        yield f"{stem}: the cubins' code is {same}, the verdict is {result['verdict']}"
    for side in files.SIDES:
        module = read_module((folder / files.bytecode_file(stem, side)).read_bytes())
        if (folder / files.dump_file(stem, side)).read_text(encoding="utf-8") != show(module):
            yield f"{files.dump_file(stem, side)} is not the text of {files.bytecode_file(stem, side)}"
    ours, theirs = (kernel_of(folder / files.bytecode_file(stem, side)) for side in files.SIDES)
    if ours is not None and theirs is not None:
        found = str(tile_ir_verdict.compare(ours, theirs, arch, ordered=True))
        if found != result["ir"]:
            yield f"{stem}: the Tile IR's verdict is {found}, the summary says {result['ir']}"


def _name_of(text: str, entry: str) -> str:
    """The name that a text's hash gives it; the hash is of the text with the kernel's plain name."""
    stem = entry.rsplit("_", 1)[0]
    plain = text.replace(f"pub mod {entry} {{", f"pub mod {stem} {{", 1)
    return named(stem, plain.replace(f"pub unsafe fn {entry}", f"pub unsafe fn {stem}", 1))


def _reports(folder: Path, read: dict[str, Any]) -> Iterator[str]:
    """Both reports are what comes out of the files again."""
    results, arch = read[files.SUMMARY]["launches"], read[files.ANALYSIS]["arch"]
    found, text = reports(folder, results, arch)
    if read[files.DIFFERENCES] != {"launches": found}:
        yield f"{files.DIFFERENCES} is not what the kernels' Tile IR gives"
    if (folder / files.DIFFERENCES_TEXT).read_text(encoding="utf-8") != text:
        yield f"{files.DIFFERENCES_TEXT} is not the text of {files.DIFFERENCES}"
    kept = read[files.RESIDUAL].get("reports", [])
    if (folder / files.RESIDUAL_TEXT).read_text(encoding="utf-8") != residual.text_of_all(kept):
        yield f"{files.RESIDUAL_TEXT} is not the text of {files.RESIDUAL}"
    different = {result["stem"] for result in results if result["verdict"] == DIFFERENT}
    if not different <= {one["what"] for one in kept}:
        yield f"{files.RESIDUAL} has no report of {', '.join(sorted(different - {one['what'] for one in kept}))}"


def _stages(folder: Path, read: dict[str, Any]) -> Iterator[str]:
    """The verdicts of self-check, host side and perf are what their files say."""
    stages, results = read[files.STATE]["stages"], read[files.SUMMARY]["launches"]
    lines = (folder / files.CORRECTNESS).read_text(encoding="utf-8").splitlines()
    if results:
        status, _ = verdict_of(results, lines, read[files.DIFFERENCES]["launches"])
        if status != stages["self-check"]["status"]:
            yield f"self-check is {stages['self-check']['status']}, its files say {status}"
    host = (folder / files.HOST).read_text(encoding="utf-8").splitlines()
    if any(line.startswith(FAIL) for line in host) != (stages["host-side"]["status"] == FAIL):
        yield f"host-side is {stages['host-side']['status']}, {files.HOST} says otherwise"
    last = (folder / files.PERFORMANCE).read_text(encoding="utf-8").splitlines()[-1:]
    wanted = f"VERDICT: {stages['perf']['status']} {stages['perf']['reason']}"
    if last != [wanted]:
        yield f"{files.PERFORMANCE} does not end in {wanted!r}"
