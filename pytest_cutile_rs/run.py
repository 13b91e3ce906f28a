# SPDX-License-Identifier: MIT
"""The hooks of an active run: collection, gathering of results (from xdist workers too), reports, exit status."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_cutile_rs import collect
from pytest_cutile_rs import record
from pytest_cutile_rs.options import ID_ROOT
from pytest_cutile_rs.options import Options
from pytest_cutile_rs.report import github
from pytest_cutile_rs.report import runs
from pytest_cutile_rs.report import terminal
from pytest_cutile_rs.report import write
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import ordered
from pytest_cutile_rs.report.tilegym import TilegymResults
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.session import ParitySession
from tilegym_rs_backend.progress import say

_ATTRIBUTE = "cutile_rs"


class Run:
    """One parity run, in this process or, on an xdist controller, over all workers."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self.config = config
        self.options = options
        self.parity = ParitySession(config, options)
        self.worker = hasattr(config, "workerinput")
        self.results: dict[str, CheckResult] = {}
        self.seconds: dict[str, float] = {}
        self.tilegym = TilegymResults()
        self.expected = 0
        self.started = time.time()
        self.report: Report | None = None
        self._quiet = False
        self._problem = ""
        self._parts: list[dict[str, Any]] = []

    def pytest_report_header(self) -> list[str]:
        """Mode and settings; nothing that has to be looked for."""
        options = self.options
        lines = []
        if options.enabled:
            lines.append(
                f"cutile-rs: checks {','.join(options.checks)}; {'quick; ' if options.quick else ''}"
                f"arch {options.arch or 'of the GPU, else sm_90'}; seed {options.seed}; "
                f"threshold {options.threshold:g}{self._apart()}; reports in {self._relative(options.out)}"
            )
            if "perf" in options.checks:
                floor = f"{options.self_check} A/A cases before the first" if options.self_check else "not measured"
                lines.append(
                    f"cutile-rs: device time by {options.timer}; noise floor: {floor}; AMBIGUOUS: {options.ambiguous}"
                    f"{f'; protocol {options.protocol} beside it' if options.protocol else ''}"
                )
        if options.tilegym_tests:
            lines.append(f"cutile-rs: TileGym's tests in {', '.join(options.tilegym_tests)} as backend cutile_rs")
        return lines

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Refuses options and ids that name nothing."""
        if self.options.enabled:
            collect.validate(self.parity)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Adds our root to the session's nodes."""
        report = yield
        if self.options.enabled and isinstance(collector, pytest.Session) and report.passed:
            report.result = [collect.root(collector, self.parity), *report.result]
        return report

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Counts what is to be done, so that a run that was cut short is known as such."""
        self.expected = sum(isinstance(item, collect.ParityItem) for item in items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Builds what the items need; it may take minutes, and pytest captures nothing yet."""
        items = [item for item in session.items if isinstance(item, collect.ParityItem)]
        if items and not session.config.option.collectonly and not session.testsfailed:
            self.parity.get_ready(((item.suite, item.case) for item in items), say)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Puts the result on the report, which xdist carries to the controller."""
        report = yield
        if isinstance(item, collect.ParityItem) and item.result is not None and call.when == "call":
            setattr(report, _ATTRIBUTE, item.result.to_dict())
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gathers a result."""
        raw = getattr(report, _ATTRIBUTE, None)
        if raw is not None:
            self.results[report.nodeid] = CheckResult.from_dict(raw)
            self.seconds[report.nodeid] = report.duration
        elif report.nodeid.startswith(f"{ID_ROOT}::"):
            if report.failed:
                self.results[report.nodeid] = _crashed(report)
        elif self.options.tilegym_tests:
            self.tilegym.add(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int | pytest.ExitCode) -> None:
        """Writes the reports, also of a run that was interrupted, and fails a run that checked nothing."""
        part = self.parity.record()
        self.parity.close()
        self._quiet = bool(session.config.getoption("collectonly", False)) or exitstatus in (
            pytest.ExitCode.USAGE_ERROR,
            pytest.ExitCode.INTERNAL_ERROR,
        )
        if self.worker:
            self.config.workeroutput[_ATTRIBUTE] = json.dumps(part, default=str)  # type: ignore[attr-defined]
        if self.worker or self._quiet:
            return
        facts = self._facts([part, *self._parts])
        expected = max(self.expected, _expected_of_workers(session.config))
        complete = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and len(self.results) >= expected
        options, results = self.options.to_dict(), ordered(self.results.values())
        self.report = Report(
            options=options,
            results=results,
            seconds=self.seconds,
            complete=complete,
            started=self.started,
            finished=time.time(),
            command=list(session.config.invocation_params.args),
            tilegym=self.tilegym if self.options.tilegym_tests else None,
            facts=facts,
            selected=expected,
            run={"id": runs.new_id()} | record.run(self.options),
            extra=record.extras(options, results, record.noise_floor([part, *self._parts])),
        )
        raw = self.report.to_dict()
        self.config.hook.pytest_cutile_rs_update_report(config=self.config, report=raw)
        write.write_all(self.options.out, self.report, raw, save=self.options.save)
        self._problem = github.append_step_summary(self.report)
        ended = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if ended and (self.report.shortfall() or record.failing_ops(self.report.extra)):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes what an xdist worker reports about itself; one that crashed reports nothing."""
        text = getattr(node, "workeroutput", {}).get(_ATTRIBUTE)
        if text:
            self._parts.append(json.loads(text))

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the tables; the last line is the verdict."""
        if self.report is None:
            return
        verbose = terminalreporter.config.get_verbosity()
        terminalreporter.section("cutile-rs parity")
        for line, style in terminal.lines(self.report, verbose):
            terminalreporter.write_line(line, **style)
        shortfall = self.report.shortfall()
        if shortfall:
            terminalreporter.write_line(f"NOTHING CHECKED: {shortfall}", red=True, bold=True)
        terminalreporter.write_line(f"reports: {self._relative(self.options.out)}")
        if self._problem:
            terminalreporter.write_line(self._problem, yellow=True)
        for line in github.annotation_lines(self.report):
            terminalreporter.write_line(line)
        terminalreporter.write_line(self.report.verdict())

    def pytest_unconfigure(self) -> None:
        """Ends the timer and the peer when the session never finished."""
        self.parity.close()

    def print_list(self) -> None:
        """Prints the selected cases."""
        collect.validate(self.parity)
        for line in collect.listing(self.parity):
            print(line)

    def _facts(self, parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        from pytest_cutile_rs.machine import machine_facts

        return record.machine(machine_facts() | {"arch": self._arch()}, parts)

    def _apart(self) -> str:
        """What deviates from the one threshold, and the shard."""
        options = self.options
        words = [f"{op} {value:g}" for op, value in options.thresholds.items()]
        words += [f"{len(options.waivers)} waivers"] if options.waivers else []
        shard = f"; shard {options.shard}" if options.shard.count > 1 else ""
        return (f" ({', '.join(words)})" if words else "") + shard

    def _arch(self) -> str | None:
        if self.options.arch:
            return self.options.arch
        return self.parity.arch if "backend" in self.parity.__dict__ else None

    def _relative(self, path: Path) -> str:
        base = self.config.invocation_params.dir
        return str(path.relative_to(base)) if path.is_relative_to(base) else str(path)


def _crashed(report: pytest.TestReport) -> CheckResult:
    _, check, rest = report.nodeid.split("::", 2)
    op, _, case = rest.partition("[")
    case = case.removesuffix("]")
    text = f"{report.when}: {report.longreprtext.strip().splitlines()[-1] if report.longreprtext else 'no message'}"
    return CheckResult(check, op, case, FAIL, text, details=report.longreprtext, dtype=case.partition("-")[0])


def _expected_of_workers(config: pytest.Config) -> int:
    """How many of our items xdist's workers collected; 0 without xdist."""
    session: Any = config.pluginmanager.get_plugin("dsession")
    scheduler = getattr(session, "sched", None)
    collections = getattr(scheduler, "collection", None) or []
    return sum(str(name).startswith(f"{ID_ROOT}::") for name in collections)
