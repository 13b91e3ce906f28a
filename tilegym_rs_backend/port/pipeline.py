# SPDX-License-Identifier: MIT
"""Port ops in stages, each ending in something a machine can check: analyze, translate, build, compare, execute."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

from . import files
from .bits import execute_both
from .capture import CapturedLaunch
from .comparison import Comparison
from .comparison import compare_launch
from .installed import check_cuda_tile
from .launches import chosen
from .ported import PortedKernels
from .ported import key_of
from .redirect import redirect

EXECUTED_BYTES = 1 << 22
EXECUTED_FLOPS = 1 << 28
"""A case that moves or computes more is not executed here: the parity suite does that, and this would take minutes."""


@dataclass
class _Op:
    """One op on its way."""

    suite: Any
    pairs: list[tuple[Any, CapturedLaunch]]
    unreachable: list[str]
    results: list[dict[str, Any]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


class Pipeline:
    """Ports ops for one architecture into a folder each.

    Args:
        arch: ``"sm_90"``.
        out: where the folders go.
        per_kernel: launches that are compared of each kernel.
        execute: run both sides of a small case on the CPU and compare bits.
    """

    def __init__(self, arch: str, out: Path, *, per_kernel: int = 2, execute: bool = True) -> None:
        self.arch = arch
        self.out = out
        self._per_kernel = per_kernel
        self._execute = execute

    @property
    def _kernels(self) -> PortedKernels:
        return redirect().kernels

    def run(self, suites: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
        """Port; returns counts and, by op, what came out. A kernel that cannot be ported does not stop the others.

        Raises:
            ToolchainError: cuda-tile or a tool is missing.
            BuildError: the crate cannot be built at all.
        """
        check_cuda_tile()
        began = time.monotonic()
        ops = {name: self._analyze(suite, say) for name, suite in suites.items()}
        new = [launch for op in ops.values() for _, launch in op.pairs if self._done(launch) is None]
        say(f"translate: {len(new)} launches")
        refusals = self._kernels.prepare(new)
        for name, op in ops.items():
            for index, (case, launch) in enumerate(op.pairs):
                self._judge(name, op, index, case, launch, refusals.get(key_of(launch)), say)
            self._write(name, op)
        everything = [result for op in ops.values() for result in op.results]
        kernels = {(result["module"], result["kernel"]) for result in everything}
        bad = {(r["module"], r["kernel"]) for r in everything if r["verdict"] != "SASS-IDENTICAL"}
        summary = {
            "arch": self.arch,
            "seconds": round(time.monotonic() - began, 1),
            "kernels": len(kernels),
            "kernels_identical": len(kernels - bad),
            "launches": len(everything),
            "identical": sum(result["verdict"] == "SASS-IDENTICAL" for result in everything),
            "ops_without_launches": {name: op.unreachable[:1] for name, op in ops.items() if not op.pairs},
            "not_identical": [
                {name: r[name] for name in ("op", "kernel", "case", "verdict", "detail")}
                for r in everything
                if r["verdict"] != "SASS-IDENTICAL"
            ],
        }
        files.write_json(self.out, f"summary-{self.arch}.json", summary)
        say(
            f"{summary['kernels_identical']} of {summary['kernels']} kernels and {summary['identical']} of "
            f"{summary['launches']} launches SASS-IDENTICAL for {self.arch}, {summary['seconds']} s"
        )
        return summary

    def _analyze(self, suite: Any, say: Callable[[str], None]) -> _Op:
        unreachable: list[str] = []
        pairs = chosen(
            suite,
            self.arch,
            self._per_kernel,
            lambda case, error: unreachable.append(f"{case.id}: {type(error).__name__}: {error}".splitlines()[0]),
        )
        if not pairs:
            why = unreachable[0] if unreachable else "no case with a shape that launches"
            say(f"VERDICT: FAIL NO-LAUNCH {suite.name}: {why}")
        analysis = {
            "op": suite.name,
            "arch": self.arch,
            "versions": {name: _version(name) for name in ("cuda-tile", "tilegym", "tilegym-rs")},
            "kernels": [
                {
                    "kernel": launch.name,
                    "case": case.id,
                    "grid": list(launch.grid),
                    "constants": dict(launch.constants),
                    "hints": dict(launch.hints),
                    "configurations": int(launch.config is not None),
                    "key": key_of(launch),
                }
                for case, launch in pairs
            ],
            "dtypes": sorted({case.dtype for case, _ in pairs}),
            "tolerances": {dtype: vars(each) for dtype, each in suite.tolerance.items()},
            "baseline": "cutile-python",
            "not_compared": ["triton-tileir: its peer does not exist yet"],
            "unreachable": unreachable,
        }
        files.write_json(self._folder(suite.name), files.ANALYSIS, analysis)
        return _Op(suite, pairs, unreachable)

    def _folder(self, op: str) -> Path:
        return self.out / self.arch / op

    def _done(self, launch: CapturedLaunch) -> object:
        return self._kernels.known(key_of(launch))

    def _judge(
        self,
        name: str,
        op: _Op,
        index: int,
        case: Any,
        launch: CapturedLaunch,
        refusal: Exception | None,
        say: Callable[[str], None],
    ) -> None:
        stem = f"{launch.name.strip('_')}-{index}"
        if refusal is not None:
            kind = "REFUSED" if type(refusal).__name__ == "Refused" else "NOT-BUILT"
            outcome = Comparison(kind, str(refusal))
        else:
            outcome = compare_launch(self._kernels, launch)
        folder = self._folder(name)
        for side, text in outcome.dumps().items():
            files.write(folder, f"{files.DUMPS}/{stem}.{side}.txt", text)
        for side, image in outcome.cubins.items():
            files.write(folder, f"{files.CUBINS}/{stem}.{side}.cubin", image)
        if outcome.entry:
            source = self._kernels.crate.source(outcome.entry)
            files.write(folder, f"{files.SOURCES}/{outcome.entry}.rs", source)
        result = {
            "op": name,
            "kernel": launch.name,
            "module": launch.module,
            "case": case.id,
            "verdict": outcome.verdict,
            "detail": outcome.detail,
            "ir": outcome.ir,
            "entry": outcome.entry,
            "baked": list(outcome.baked),
            "passes": list(outcome.passes),
            "stem": stem,
        }
        op.results.append(result)
        if outcome.difference:
            op.lines.append(f"{launch.name} [{case.id}]\n{outcome.difference}\n")
        status = "PASS" if outcome.verdict == "SASS-IDENTICAL" else "FAIL"
        detail = outcome.detail.splitlines()[0] if outcome.detail else ""
        say(f"VERDICT: {status} {outcome.verdict} {launch.name} {name}[{case.id}] {detail}")

    def _write(self, name: str, op: _Op) -> None:
        folder = self._folder(name)
        log = self._correctness(op) if self._execute else "NOT-RUN: left out\n"
        files.write(folder, files.CORRECTNESS, log)
        files.write(folder, files.PERFORMANCE, "NOT-RUN: `pytest --cutile-rs` times on a GPU\n")
        files.write(folder, files.DIFFERENCES, "\n".join(op.lines) or "none\n")
        files.write_json(folder, files.SUMMARY, {"op": name, "arch": self.arch, "launches": op.results})

    def _correctness(self, op: _Op) -> str:
        """Execute the smallest case of both sides on the CPU."""
        lines = []
        seen: set[str] = set()
        for case, _ in op.pairs:
            large = op.suite.bytes_moved(case) > EXECUTED_BYTES or op.suite.flops(case) > EXECUTED_FLOPS
            if case.id in seen or large:
                continue
            seen.add(case.id)
            try:
                lines += [f"[{case.id}] {line}" for line in execute_both(self._kernels, op.suite, case, self.arch)]
            except Exception as error:
                lines.append(f"[{case.id}] NOT-RUN: {type(error).__name__}: {error}".splitlines()[0])
            break
        return "\n".join(lines or ["NOT-RUN: every case is too large for a CPU"]) + "\n"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
