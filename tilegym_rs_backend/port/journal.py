# SPDX-License-Identifier: MIT
"""Stages of porting an op, their verdicts, and the state on disk that lets a killed run go on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from . import files

STAGES = ("preflight", "analyze", "translate", "self-check", "host-side", "perf")
PASS, FAIL, NOT_RUN = "PASS", "FAIL", "NOT-RUN"
STATUSES = (PASS, FAIL, NOT_RUN)


@dataclass(frozen=True)
class Verdict:
    """How a stage ended.

    Attributes:
        stage: one of ``STAGES``.
        status: ``PASS``, ``FAIL``, or ``NOT-RUN``, which never counts as PASS.
        reason: one line.
        data: what later stages and the summary need to know; JSON types.
    """

    stage: str
    status: str
    reason: str
    data: dict[str, Any] = field(default_factory=dict, compare=False)

    def line(self, op: str) -> str:
        """The stage's last line."""
        return f"VERDICT: {self.status} {self.stage} {op}: {' '.join(self.reason.split())}"


def digest_of(*parts: object) -> str:
    """Name what a stage is made from."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


class Journal:
    """The state of one op's folder; written whole, by a rename, whenever a stage ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        found = files.read_json(folder, files.STATE) or {}
        stages = found.get("stages")
        self._stages: dict[str, dict[str, Any]] = stages if isinstance(stages, dict) else {}

    def done(self, stage: str, inputs: str) -> Verdict | None:
        """Return the verdict of a stage that ended on the same inputs and whose files are as it left them."""
        kept = self._stages.get(stage)
        if kept is None or kept.get("inputs") != inputs or kept.get("status") not in STATUSES:
            return None
        if any(files.sha256(self.folder, name) != digest for name, digest in kept["files"].items()):
            return None
        return Verdict(stage, kept["status"], kept["reason"], kept["data"])

    def record(self, verdict: Verdict, inputs: str, names: Iterable[str] = ()) -> None:
        """Keep a stage's end, with the files that it wrote."""
        self._stages[verdict.stage] = {
            "inputs": inputs,
            "status": verdict.status,
            "reason": verdict.reason,
            "files": {name: files.sha256(self.folder, name) for name in sorted(set(names))},
            "data": verdict.data,
        }
        ordered = {stage: self._stages[stage] for stage in STAGES if stage in self._stages}
        files.write(self.folder, files.STATE, files.json_text({"stages": ordered}))

    def verdicts(self) -> dict[str, dict[str, str]]:
        """Stage -> its status and reason, for the summary."""
        return {name: {"status": kept["status"], "reason": kept["reason"]} for name, kept in self._stages.items()}
