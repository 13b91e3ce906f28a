# SPDX-License-Identifier: MIT
"""The last stage: device time, by the parity gate, where there is a GPU of the architecture."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any
from typing import Protocol

from .journal import FAIL
from .journal import NOT_RUN
from .journal import PASS

_MOST_SECONDS = 4 * 3600.0
_FOLDER = "gate"


@dataclass(frozen=True)
class Measured:
    """What the gate said of an op.

    Attributes:
        status: ``PASS``, ``FAIL``, or ``NOT-RUN`` with the reason why nothing was measured.
        reason: one line.
        cases: the gate's results case by case, as its ``perf.json`` has them.
    """

    status: str
    reason: str
    cases: list[dict[str, Any]] = field(default_factory=list)

    def log(self) -> str:
        """The text of performance.log, the verdict last."""
        lines = [f"{case['case']}: {case['verdict'].removeprefix('VERDICT: ')}" for case in self.cases]
        return "\n".join([*lines, f"VERDICT: {self.status} {self.reason}"]) + "\n"


class Gate(Protocol):
    """Measures an op's translation against its original."""

    def where(self, arch: str) -> str:
        """Name the GPU that would measure; empty where there is none for ``arch``."""

    def why(self, arch: str) -> str:
        """Say why nothing can be measured here; empty where something can."""

    def measure(self, op: str, arch: str, folder: Path) -> Measured:
        """Measure; ``folder`` may hold what the measurement leaves."""


class ParityGate:
    """`pytest --cutile-rs` with the ported variant, in a process of its own: it wants the GPU's counters to itself."""

    def where(self, arch: str) -> str:
        """See `Gate`."""
        return "" if self.why(arch) else _gpu()[1]

    def why(self, arch: str) -> str:
        """See `Gate`."""
        own, name = _gpu()
        if not own:
            return "no GPU here; run the same command on a machine with one"
        return "" if own == arch else f"the GPU here, {name}, is {own}; device time for {arch} needs an {arch}"

    def measure(self, op: str, arch: str, folder: Path) -> Measured:
        """See `Gate`."""
        out = folder / _FOLDER
        words = ["--cutile-rs", "--cutile-rs-ops", op, "--cutile-rs-variant", "ported"]
        words += ["--cutile-rs-checks", "numerics,perf", "--cutile-rs-out", str(out)]
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return Measured(FAIL, f"the gate took more than {_MOST_SECONDS / 3600:g} h")
        try:
            found = json.loads((out / op / "perf.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            tail = " ".join((done.stdout + done.stderr).split())[-400:]
            return Measured(FAIL, f"the gate ended with status {done.returncode} and no result: {tail}")
        return judged(found["cases"])


def not_passed(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cases that the gate measured, or tried to, and did not let pass."""
    return [case for case in cases if case["status"] not in (PASS, "WAIVED", NOT_RUN)]


def judged(cases: list[dict[str, Any]]) -> Measured:
    """Sum up the gate's results: one that is neither PASS, WAIVED nor NOT-RUN fails the op."""
    ran = [case for case in cases if case["status"] != NOT_RUN]
    bad = not_passed(cases)
    if bad:
        worst = bad[0]
        return Measured(FAIL, f"{len(bad)} of {len(ran)} cases, such as {worst['case']}: {worst['reason']}", cases)
    if not ran:
        why = cases[0]["reason"] if cases else "the op has no perf case"
        return Measured(NOT_RUN, why, cases)
    return Measured(PASS, f"{len(ran)} cases", cases)


def _gpu() -> tuple[str, str]:
    """Architecture and name of the current CUDA device, empty without one."""
    import torch

    if not torch.cuda.is_available():
        return "", ""
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return f"sm_{properties.major}{properties.minor}", str(properties.name)
