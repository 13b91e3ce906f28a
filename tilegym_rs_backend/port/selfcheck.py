# SPDX-License-Identifier: MIT
"""The self-check of one launch: front end, assembly, Tile IR, machine code; of a small case also every byte."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import differences
from . import files
from .bits import execute_both
from .capture import CapturedLaunch
from .comparison import DIFFERENT
from .comparison import IDENTICAL
from .comparison import Comparison
from .comparison import compare_launch
from .comparison import kernel_of
from .entries import Entry
from .journal import FAIL
from .journal import PASS
from .launches import Chosen
from .ported import PortedKernels

EXECUTED_BYTES = 1 << 22
EXECUTED_FLOPS = 1 << 28
"""A case that moves or computes more is not executed here: the parity suite does that, and this would take minutes."""
PLAIN, PARITY, SUPPLIED = "plain", "parity passes", "supplied"
"""How a launch's text came about: the front ends of the two attempts, or somebody else."""


def judge(
    kernels: PortedKernels, folder: Path, described: dict[str, Any], launch: CapturedLaunch, supplied: Entry | None
) -> tuple[dict[str, Any], list[str]]:
    """Compare a launch with its entry and write its files; returns its row of the summary, and the files' names.

    Args:
        kernels: translations by key.
        folder: of the op.
        described: the launch in the analysis.
        launch: the launch.
        supplied: an entry that does not answer the key yet, and will if it is identical.
    """
    outcome = compare_launch(kernels, launch, supplied)
    if supplied is not None and outcome.verdict == IDENTICAL:
        kernels.enter(described["key"], supplied)
    entry = supplied or kernels.entry(launch)
    front_end = SUPPLIED if entry.supplied else PLAIN if entry.plain else PARITY
    origin = SUPPLIED if entry.supplied else "translated"
    result = row(described, outcome.verdict, outcome.detail, front_end, outcome, origin)
    stem = described["stem"]
    names = [files.write(folder, files.source_file(entry.name), kernels.crate.source(entry.name))]
    for side, code in outcome.bytecodes.items():
        names.append(files.write(folder, files.bytecode_file(stem, side), code))
    for side, text in outcome.dumps().items():
        names.append(files.write(folder, files.dump_file(stem, side), text))
    for side, image in outcome.cubins.items():
        names.append(files.write(folder, files.cubin_file(stem, side), image))
    return result, names


def row(
    described: dict[str, Any],
    verdict: str,
    detail: str,
    front_end: str,
    outcome: Comparison | None = None,
    origin: str = "",
) -> dict[str, Any]:
    """Return a launch's row of the summary."""
    return {
        **{name: described[name] for name in ("stem", "kernel", "module", "case", "key")},
        "verdict": verdict,
        "detail": detail,
        "ir": outcome.ir if outcome else "",
        "entry": outcome.entry if outcome else "",
        "origin": origin,
        "attempts": [{"front_end": front_end, "verdict": verdict}],
        "baked": list(outcome.baked) if outcome else [],
        "passes": list(outcome.passes) if outcome else [],
    }


def worth_a_retry(result: dict[str, Any]) -> bool:
    """Whether the parity passes may make a launch identical that the plain front end did not."""
    return result["verdict"] in (DIFFERENT, "NOT-COMPILED") and result["attempts"][-1]["front_end"] == PLAIN


def reports(folder: Path, results: Sequence[dict[str, Any]], arch: str) -> tuple[list[dict[str, Any]], str]:
    """Return the IR-difference reports of launches that are not identical, and their text."""
    found, texts = [], []
    for result in results:
        if result["verdict"] == IDENTICAL:
            continue
        ours, theirs = (kernel_of(folder / files.bytecode_file(result["stem"], side)) for side in files.SIDES)
        if result["verdict"] != DIFFERENT:
            ours = theirs = None  # what lies there is of an earlier attempt
        one = differences.report(result, ours, theirs, arch)
        found.append(one)
        texts.append(differences.text_of(one, ours, theirs))
    return found, "\n".join(texts) or files.NONE


def executed(kernels: PortedKernels, suite: Any, arch: str, found: Sequence[Chosen]) -> list[str]:
    """Execute the smallest case of both sides on the CPU; one line per launch, or why nothing was executed."""
    for case in dict.fromkeys(each.case for each in found):
        if suite.bytes_moved(case) > EXECUTED_BYTES or suite.flops(case) > EXECUTED_FLOPS:
            continue
        try:
            return [f"[{case.id}] {line}" for line in execute_both(kernels, suite, case, suite.arch_for(arch))]
        except Exception as error:
            return [f"[{case.id}] NOT-RUN {type(error).__name__}: {error}".splitlines()[0]]
    return ["NOT-RUN every case is too large for a CPU"]


def entry_from(record: dict[str, Any]) -> Entry:
    """Return an entry that was kept as JSON."""
    return Entry(**{**record, "arguments": tuple(map(tuple, record["arguments"]))})


def entry_to(entry: Entry) -> dict[str, Any]:
    """Return an entry as JSON types."""
    return dataclasses.asdict(entry)


def verdict_of(
    results: Sequence[dict[str, Any]], lines: Sequence[str], found: Sequence[dict[str, Any]]
) -> tuple[str, str]:
    """Return status and reason of the stage: what the launches' verdicts and the executed lines say together.

    Where something is wrong, the reason is the diagnosis: whose fault, and why.
    """
    identical = sum(result["verdict"] == IDENTICAL for result in results)
    if found:
        one = found[0]
        whose = f"{one['fault']} fault ({one['component']}): {one['why']}"
        return FAIL, f"{identical} of {len(results)} launches identical; {one['kernel']} {one['verdict']}, {whose}"
    wrong = [line for line in lines if "] FAIL " in line]
    if wrong:
        return FAIL, f"machine code identical, bits are not: {wrong[0]}"
    equal = sum("] PASS " in line for line in lines)
    bits = f"{equal} executed launches BIT-EQUAL" if equal else f"bits {next(iter(lines), 'NOT-RUN')}"
    return PASS, f"{identical} of {len(results)} launches SASS-IDENTICAL, {bits}"
