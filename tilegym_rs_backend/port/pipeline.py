# SPDX-License-Identifier: MIT
"""Port ops in stages: preflight, analyze, translate, self-check, host side, perf.

Each stage ends in a verdict line and in the op's journal, so that a killed run goes on where it was and a stage with
the same inputs is not repeated. Ops share builds: a stage that builds takes all ops before the next one begins. A
kernel gets two attempts, the plain front end and then the parity passes; what is left is diagnosed, not tried again.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import progress
from ..errors import CompileError
from ..progress import Heartbeat
from ..tile_ir.machine_code import ASSEMBLIES
from ..toolchain.toolkit import TILEIRAS_VERSION
from . import files
from . import hostside
from . import performance
from . import residual
from . import selfcheck
from .ahead import Job
from .ahead import made_ahead
from .cached import generation
from .comparison import IDENTICAL
from .comparison import compile_both
from .entries import supplied
from .external import Command
from .external import ExternalError
from .external import module_of
from .journal import FAIL
from .journal import NOT_RUN
from .journal import PASS
from .journal import Verdict
from .ported import PortedKernels
from .preflight import preflight
from .redirect import redirect
from .translate import Refused
from .work import Work
from .work import run_summary


class Pipeline:
    """Ports ops for one architecture into a folder each.

    Args:
        arch: ``"sm_90"``.
        out: where the folders go.
        per_kernel: launches that are compared of each kernel.
        execute: run both sides of a small case on the CPU and compare bits.
        on_refused: asked for a source where the translator refuses a kernel.
        gate: measures device time.
    """

    def __init__(
        self,
        arch: str,
        out: Path,
        *,
        per_kernel: int = 2,
        execute: bool = True,
        on_refused: Command | None = None,
        gate: performance.Gate | None = None,
    ) -> None:
        self.arch = arch
        self.out = out
        self._per_kernel = per_kernel
        self._execute = execute
        self._on_refused = on_refused
        self._gate = gate or performance.ParityGate()
        self._beat = Heartbeat(progress.say).beat

    @property
    def _kernels(self) -> PortedKernels:
        return redirect().kernels

    def run(self, suites: Mapping[str, Any], say: Callable[[str], None]) -> dict[str, Any]:
        """Port; returns counts and what is not identical. A kernel that cannot be ported does not stop the others.

        Raises:
            BuildError: the crate cannot be built at all.
        """
        began = time.monotonic()
        ready = preflight(self.arch)
        say(ready.line(self.arch))
        works = []
        if ready.status == PASS:
            works = [Work(suite, self.arch, self.out / self.arch / name, say) for name, suite in suites.items()]
        for work in works:
            work.inputs["preflight"] = ready.reason
            work.journal.record(ready, ready.reason)
            work.analyze(self._per_kernel)
        with_launches = [work for work in works if work.analysis["launches"]]
        self._translate(with_launches)
        self._check(with_launches)
        self._host_sides(works)
        for work in works:
            self._perf(work)
            work.finish()
        summary = run_summary(self.arch, ready, works, round(time.monotonic() - began, 1))
        files.write(self.out, f"summary-{self.arch}.json", files.json_text(summary))
        say(
            f"{summary['kernels_identical']} of {summary['kernels']} kernels ({summary['kernels_identical_once']} in a "
            f"launch at least) and {summary['identical']} of {summary['launches']} launches SASS-IDENTICAL for "
            f"{self.arch}, {summary['seconds']} s"
        )
        return summary

    # Translate

    def _translate(self, works: Sequence[Work]) -> None:
        todo = []
        for work in works:
            words = (self._on_refused.words, self._on_refused.seconds) if self._on_refused else ()
            analysis = files.sha256(work.folder, files.ANALYSIS)
            if not work.kept("translate", analysis, generation(), *words, still=self._still_built(work)):
                todo.append(work)
        failed = self._kernels.prepare([each.launch for work in todo for each in work.chosen()], self._beat, plain=True)
        for work in todo:
            work.end(*self._translated(work, failed))

    def _still_built(self, work: Work) -> Callable[[Verdict], bool]:
        """Whether the cache still has what an earlier run has built."""

        def still(verdict: Verdict) -> bool:
            failed, entries = verdict.data["failed"], verdict.data["supplied"]
            keys = {each["key"] for each in work.analysis["launches"]} - failed.keys() - entries.keys()
            has = self._kernels.crate.has
            return all(map(self._kernels.known, keys)) and all(has(entry["name"]) for entry in entries.values())

        return still

    def _translated(self, work: Work, failed: Mapping[str, Exception]) -> tuple[Verdict, list[str]]:
        problems: dict[str, tuple[str, str]] = {}
        entries: dict[str, Any] = {}
        names: list[str] = []
        for described, each in work.pairs():
            key, stem = described["key"], described["stem"]
            error = failed.get(key)
            if error is None:
                entry = self._kernels.entry(each.launch)
                names.append(files.write(work.folder, files.source_file(entry.name), self._source(entry.name)))
                continue
            problems[key] = ("REFUSED" if isinstance(error, Refused) else "NOT-BUILT", str(error))
            if self._on_refused is not None and isinstance(error, Refused) and key not in entries:
                try:
                    entries[key] = self._ask(self._on_refused, work, stem, each.launch, error)
                except (ExternalError, CompileError) as answer:
                    problems[key] = ("REFUSED", f"{error}\n{answer}")
                else:
                    del problems[key]
                    name = entries[key]["name"]
                    names.append(files.write(work.folder, files.source_file(name), self._source(name)))
        count = len(work.analysis["launches"])
        data = {"failed": problems, "supplied": entries}
        if problems:
            first = next(iter(problems.values()))
            reason = f"{len(problems)} of {count} launches have no entry: {first[0]} {first[1].splitlines()[0]}"
            return Verdict("translate", FAIL, reason, data), names
        also = f", {len(entries)} supplied" if entries else ""
        return Verdict("translate", PASS, f"{count} launches, {len(set(names))} texts{also}", data), names

    def _ask(self, command: Command, work: Work, stem: str, launch: Any, refusal: Refused) -> dict[str, Any]:
        """Have a source supplied, build it, and return its entry as JSON types."""
        analysis = (work.folder / files.ANALYSIS).read_text(encoding="utf-8")
        text = command.supply(work.folder / files.SUPPLIED / stem, launch, refusal, analysis)
        name, text = module_of(text, launch.name)
        refused = {} if self._kernels.crate.has(name) else self._kernels.crate.add({name: text})
        if name in refused:
            raise CompileError(f"rustc refused the source that --on-refused supplied: {refused[name]}")
        return selfcheck.entry_to(supplied(self._kernels.crate.library().kernel(name), launch))

    def _source(self, entry: str) -> str:
        return self._kernels.crate.source(entry)

    # Self-check

    def _check(self, works: Sequence[Work]) -> None:
        todo = []
        for work in works:
            data = work.verdicts["translate"].data
            settings = (TILEIRAS_VERSION, ASSEMBLIES, self._execute)
            if not work.kept("self-check", work.inputs["translate"], files.json_text(data), *settings):
                todo.append(work)
        judged: dict[str, list[tuple[dict[str, Any], list[str]]]] = {}
        again: list[tuple[Work, int]] = []
        with made_ahead(self._compiling((work, pair) for work in todo for pair in work.pairs())):
            for work in todo:
                found = judged[work.name] = [self._judge(work, *pair) for pair in work.pairs()]
                retries = [(work, index) for index, (row, _) in enumerate(found) if selfcheck.worth_a_retry(row)]
                again += retries
                if not retries:
                    self._checked(work, found)
        self._kernels.prepare([work.chosen()[index].launch for work, index in again], self._beat, again=True)
        with made_ahead(self._compiling((work, work.pairs()[index]) for work, index in again)):
            for work, index in again:
                before, earlier = judged[work.name][index]
                result, names = self._judge(work, *work.pairs()[index])
                result["attempts"] = [*before["attempts"], *result["attempts"]]
                judged[work.name][index] = (result, [*earlier, *names])
        for work in {work.name: work for work, _ in again}.values():
            self._checked(work, judged[work.name])

    def _compiling(self, pairs: Iterable[tuple[Work, tuple[dict[str, Any], Any]]]) -> list[Job]:
        """What `_judge` will ask of both compilers, for those that have an entry."""
        return [
            functools.partial(compile_both, self._kernels, each.launch, work.supplied.get(described["key"]))
            for work, (described, each) in pairs
            if described["key"] not in work.failed
        ]

    def _judge(self, work: Work, described: dict[str, Any], each: Any) -> tuple[dict[str, Any], list[str]]:
        key = described["key"]
        if key in work.failed:
            verdict, detail = work.failed[key]
            return selfcheck.row(described, verdict, detail, selfcheck.PLAIN), []
        return selfcheck.judge(self._kernels, work.folder, described, each.launch, work.supplied.get(key))

    def _checked(self, work: Work, judged: Sequence[tuple[dict[str, Any], list[str]]]) -> None:
        results = [result for result, _ in judged]
        names = [name for _, more in judged for name in more]
        for result in results:
            status = PASS if result["verdict"] == IDENTICAL else FAIL
            detail = (result["detail"].splitlines() or [""])[0]
            work.say(f"VERDICT: {status} {result['verdict']} {result['kernel']} {work.name}[{result['case']}] {detail}")
        found, text = selfcheck.reports(work.folder, results, work.analysis["arch"])
        names.append(files.write(work.folder, files.DIFFERENCES, files.json_text({"launches": found})))
        names.append(files.write(work.folder, files.DIFFERENCES_TEXT, text))
        lines = ["NOT-RUN left out"]
        if self._execute:
            lines = selfcheck.executed(self._kernels, work.suite, self.arch, work.chosen())
        names.append(files.write(work.folder, files.CORRECTNESS, "\n".join(lines) + "\n"))
        verdict = selfcheck.verdict_of(results, lines, found)
        work.end(Verdict("self-check", *verdict, {"launches": results}), names)

    # Host side and device time

    def _host_sides(self, works: Sequence[Work]) -> None:
        todo = []
        for work in works:
            if not work.analysis["launches"]:
                work.skip_all()
            elif not work.kept("host-side", work.inputs["self-check"], self._keys(work)):
                missing = {result["key"] for result in work.results if not self._kernels.known(result["key"])}
                usable = [each for described, each in work.pairs() if described["key"] not in missing]
                todo.append((work, usable, hostside.wanted(work.suite, self.arch, usable)))
        # A case may launch more than what was chosen of it: all of that is built together too.
        self._kernels.prepare(
            [launch for _, _, cases in todo for each in cases for launch in each.launches], self._beat
        )
        for work, usable, cases in todo:
            self._host_side(work, list(hostside.check(work.suite, self.arch, usable, cases)))

    def _host_side(self, work: Work, lines: Sequence[tuple[bool, str]]) -> None:
        text = "".join(f"{PASS if good else FAIL} {line}\n" for good, line in lines)
        text += "NOT-RUN TileGym's own tests: `pytest --tilegym-tests DIR` runs them on a GPU\n"
        wrong = [line for good, line in lines if not good]
        status, reason = (FAIL, wrong[0]) if wrong else (PASS, f"{len(lines)} exports and cases")
        if not lines:
            status, reason = NOT_RUN, "no kernel of the op was ported"
        work.end(Verdict("host-side", status, reason), [files.write(work.folder, files.HOST, text)])

    def _keys(self, work: Work) -> str:
        found = {result["key"]: self._kernels.known(result["key"]) for result in work.results}
        return str(sorted((key, entry.name if entry else "") for key, entry in found.items()))

    def _perf(self, work: Work) -> None:
        arch = str(work.analysis["arch"])
        gpu, host = self._gate.where(arch), files.sha256(work.folder, files.HOST)
        if work.kept("perf", work.inputs["self-check"], work.inputs["host-side"], host, gpu):
            return
        measured = performance.Measured(NOT_RUN, self._gate.why(arch))
        wrong = [work.verdicts[name] for name in ("self-check", "host-side") if work.verdicts[name].status != PASS]
        if wrong:
            measured = performance.Measured(NOT_RUN, f"{wrong[0].stage} did not pass, so there is nothing to time")
        elif not any(case.perf for case in work.suite.cases):
            measured = performance.Measured(NOT_RUN, f"{work.name} has no perf case")
        elif gpu:
            measured = self._gate.measure(work.name, arch, work.folder)
        found = self._residual(work, measured)
        names = [files.write(work.folder, files.PERFORMANCE, measured.log())]
        names.append(files.write(work.folder, files.RESIDUAL, files.json_text({"reports": found})))
        names.append(files.write(work.folder, files.RESIDUAL_TEXT, residual.text_of_all(found)))
        work.end(Verdict("perf", measured.status, measured.reason), names)

    def _residual(self, work: Work, measured: performance.Measured) -> list[dict[str, Any]]:
        """Report on launches whose code is not the original's, and on cases that the gate did not pass."""
        log = work.folder / files.HOST
        launching = [line.removeprefix("FAIL ") for line in log.read_text().splitlines() if line.startswith("FAIL ")]
        found = [
            residual.of_files(work.folder, result, str(work.analysis["arch"]), launching)
            for result in work.results
            if result["verdict"] == "SASS-DIFFERENT"
        ]
        identical = all(result["verdict"] == IDENTICAL for result in work.results)
        return found + [residual.of_case(case, identical) for case in performance.not_passed(measured.cases)]
