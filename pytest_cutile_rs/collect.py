# SPDX-License-Identifier: MIT
"""Items of our own under ids like ``cutile_rs::ir::softmax[f16-256x2048]``: no test file, no parametrization."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.options import ID_ROOT
from pytest_cutile_rs.report import junit
from pytest_cutile_rs.report.repeat import repeat_command
from pytest_cutile_rs.result import AMBIGUOUS
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import WAIVED
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.result import fails
from pytest_cutile_rs.result import verdict_line
from pytest_cutile_rs.session import ParitySession
from pytest_cutile_rs.size import CPU
from pytest_cutile_rs.size import size_of

_CASE_ID = re.compile(r"[\w.\-]+")


class ParityFailure(AssertionError):
    """A check that ran and did not pass."""

    def __init__(self, result: CheckResult) -> None:
        super().__init__(f"{result.status} {result.reason}")
        self.result = result


class ParityItem(pytest.Item):
    """One check of one case."""

    def __init__(self, *, parity: ParitySession, check: str, suite: OpSuite, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parity = parity
        self.check = check
        self.suite = suite
        self.case = case
        self.result: CheckResult | None = None
        self.extra_keyword_matches.update((check, case.op, case.dtype))

    def runtest(self) -> None:
        """Runs the check; skips when it cannot run, fails unless it passed."""
        try:
            result = self.parity.run(self.check, self.suite, self.case)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            self._keep(CheckResult(self.check, self.case.op, self.case.id, "FAIL", text, dtype=self.case.dtype))
            raise
        self._keep(result)
        if result.status == NOT_RUN:
            pytest.skip(result.reason)
        ambiguous = self.parity.options.ambiguous
        if fails(result.status, ambiguous):
            raise ParityFailure(result)
        if result.status == WAIVED or (result.status == AMBIGUOUS and ambiguous == "xfail"):
            pytest.xfail(f"{result.status} {result.reason}")

    def _keep(self, result: CheckResult) -> None:
        self.result = result
        self.user_properties.extend(junit.properties(result))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The check's own message and the command that repeats it; a traceback only for a fault."""
        if not isinstance(excinfo.value, ParityFailure):
            return super().repr_failure(excinfo, style)
        result = excinfo.value.result
        status, reason = result.status, result.reason
        if status == AMBIGUOUS:  # here only where the run counts it as a failure
            status, reason = FAIL, f"{status} {reason}"
        lines = [result.details or reason, "", f"repeat: {self.command()}", verdict_line(status, reason)]
        return "\n".join(lines)

    def command(self) -> str:
        """The command line that runs this item alone."""
        return repeat_command(self.nodeid, self.parity.options.to_dict())

    def reportinfo(self) -> tuple[Path, None, str]:
        """A file that exists, and the id as the name."""
        return self.path, None, self.nodeid


class CheckCollector(pytest.Collector):
    """All selected cases of one check."""

    def __init__(self, *, parity: ParitySession, members: list[tuple[OpSuite, Case]], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parity = parity
        self.members = members

    def collect(self) -> Iterator[ParityItem]:
        """Items in the order of the case files."""
        for suite, case in self.members:
            name = f"{case.op}[{case.id}]"
            yield ParityItem.from_parent(
                self,
                name=name,
                nodeid=f"{ID_ROOT}::{self.name}::{name}",
                parity=self.parity,
                check=self.name,
                suite=suite,
                case=case,
            )


class ParityRoot(pytest.Collector):
    """The node ``cutile_rs``."""

    def __init__(self, *, parity: ParitySession, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parity = parity

    def collect(self) -> Iterator[CheckCollector]:
        """One collector per check that has a selected case."""
        by_check: dict[str, list[tuple[OpSuite, Case]]] = {}
        for check, suite, case in selected(self.parity):
            by_check.setdefault(check, []).append((suite, case))
        for check, members in by_check.items():
            yield CheckCollector.from_parent(
                self, name=check, nodeid=f"{ID_ROOT}::{check}", parity=self.parity, members=members
            )


def root(session: pytest.Session, parity: ParitySession) -> ParityRoot:
    """The top node, to be added to the session's."""
    return ParityRoot.from_parent(session, name=ID_ROOT, nodeid=ID_ROOT, path=session.path, parity=parity)


def item_id(check: str, case: Case) -> str:
    """The id of one check of one case."""
    return f"{ID_ROOT}::{check}::{case.op}[{case.id}]"


def selected(parity: ParitySession) -> Iterator[tuple[str, OpSuite, Case]]:
    """The cases that the options, the ids on the command line and the shard leave."""
    wanted = parity.options.ids
    left = (
        ((case.op, case.id), (check, suite, case))
        for check, suite, case in parity.cases()
        if not wanted or any(_names(argument, item_id(check, case)) for argument in wanted)
    )
    return parity.options.shard.part(left)


def validate(parity: ParitySession) -> None:
    """Checks ops, case ids and the ids of the command line.

    Raises:
        pytest.UsageError: an unknown op or id, or a suite whose case ids are malformed or not unique.
    """
    known = parity.suites
    unknown = sorted(set(parity.options.ops) - set(known))
    if unknown:
        raise pytest.UsageError(f"--cutile-rs-ops: unknown {', '.join(unknown)}; known are {', '.join(known)}")
    decided = [*parity.options.thresholds, *(waiver.op for waiver in parity.options.waivers)]
    unknown = sorted(set(decided) - set(known))
    if unknown:
        raise pytest.UsageError(
            f"[tool.cutile_rs] of pyproject.toml: a threshold or waiver is about the unknown op {', '.join(unknown)}; "
            f"known are {', '.join(known)}"
        )
    for suite in known.values():
        ids = [case.id for case in suite.cases]
        broken = sorted({name for name in ids if ids.count(name) > 1 or not _CASE_ID.fullmatch(name)})
        if broken:
            raise pytest.UsageError(f"suite {suite.name}: case ids not unique or malformed: {', '.join(broken)}")
    ids = [item_id(check, case) for check, _, case in parity.cases()]
    for argument in parity.options.ids:
        if not any(_names(argument, name) for name in ids):
            near = difflib.get_close_matches(argument, ids, n=3, cutoff=0.5)
            hint = f"; near: {', '.join(near)}" if near else ""
            raise pytest.UsageError(
                f"not found: {argument} (no selected case has this id{hint}; pytest --cutile-rs-list shows all, and "
                "--cutile-rs-ops, -dtypes, -checks and -quick leave some out)"
            )


def _names(argument: str, name: str) -> bool:
    return name == argument or name.startswith((argument + "::", argument + "["))


def listing(parity: ParitySession) -> list[str]:
    """One line per selected case and a line of totals."""
    checks: dict[tuple[str, str], list[str]] = {}
    sizes: dict[tuple[str, str], str] = {}
    for check, suite, case in selected(parity):
        checks.setdefault((case.op, case.id), []).append(check)
        sizes[case.op, case.id] = size_of(suite, case)
    by_op = sorted(checks.items(), key=lambda entry: entry[0][0])
    lines = [f"{op}[{name}]  {sizes[op, name]}  {','.join(found)}" for (op, name), found in by_op]
    small = sum(size == CPU for size in sizes.values())
    total = sum(map(len, checks.values()))
    return [*lines, f"{len(sizes)} cases ({small} of cpu size, {len(sizes) - small} of gpu size), {total} checks"]
