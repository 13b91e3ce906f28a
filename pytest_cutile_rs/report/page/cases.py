# SPDX-License-Identifier: MIT
"""Every case by op: outcome of its four checks, and inside it figures, samples, differences and commands."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import variants
from pytest_cutile_rs.report.page.checks import TITLES
from pytest_cutile_rs.report.page.checks import figures
from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import status
from pytest_cutile_rs.report.page.markup import tag
from pytest_cutile_rs.report.page.plot import case_id
from pytest_cutile_rs.report.repeat import repeat_command
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import SEVERITY
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.result import worst


def cases(report: Report) -> Markup:
    """The section; its filter needs the page's script and is hidden without it."""
    found: dict[str, dict[str, list[CheckResult]]] = {}
    for result in report.results:
        found.setdefault(result.op, {}).setdefault(result.case, []).append(result)
    if not found:
        return Markup()
    search = tag("input", type="search", id="filter", placeholder="op, case, status", aria_label="show only cases with")
    bad = tag("label", tag("input", type="checkbox", id="only-bad"), " only what did not pass")
    tools = tag("p", search, " ", bad, " ", tag("span", id="count", role="status"), class_="tools", hidden=True)
    by_op = [_op(report, op, found[op]) for op in sorted(found, key=lambda op: (_rank_of_op(found[op]), op))]
    return tag("section", tag("h2", "Cases"), tools, by_op, id="cases")


def _op(report: Report, op: str, members: dict[str, list[CheckResult]]) -> Markup:
    names = sorted(members, key=lambda case: (_rank(members[case]), case))
    inside = [_case(report, op, case, members[case]) for case in names]
    return tag("div", tag("h3", op, id=f"op-{op}"), inside, class_="op")


def _case(report: Report, op: str, case: str, results: Sequence[CheckResult]) -> Markup:
    badges = [tag("span", TITLES[one.check], " ", status(one.status), class_="check") for one in results]
    kind = ", ".join(variants(results))
    head = tag(
        "summary",
        tag("code", f"{op}[{case}]"),
        tag("small", kind, class_="kind") if kind else None,
        tag("span", badges, class_="checks"),
    )
    words = f"{op}[{case}] {kind} {' '.join(f'{one.check}:{one.status}' for one in results)}".lower()
    passed = all(one.status in ("PASS", NOT_RUN) for one in results)
    return tag(
        "details",
        head,
        [_check(report, one) for one in results],
        class_="case",
        id=case_id(op, case),
        data_words=words,
        data_passed="yes" if passed else "no",
    )


def _check(report: Report, result: CheckResult) -> Markup:
    command = repeat_command(result.nodeid, report.options)
    return tag(
        "div",
        tag("h4", TITLES[result.check], " ", status(result.status)),
        tag("p", result.reason) if result.reason else None,
        figures(result),
        _command("repeat", command),
        _command("both kernels in full", _diff(result)) if result.check == "ir" and result.data else None,
        class_="level-of-case",
    )


def _command(title: str, command: str) -> Markup:
    return tag("p", f"{title}: ", tag("code", command, class_="command"), class_="repeat")


def _diff(result: CheckResult) -> str:
    arch = result.data.get("arch")
    return shlex.join(["tilegym-rs", "ir", "diff", result.op, result.case, *(["--arch", arch] if arch else [])])


def _rank(results: Sequence[CheckResult]) -> int:
    """Severity of the worst check that ran."""
    found = worst(one.status for one in results if one.status != NOT_RUN)
    return SEVERITY.index(found)


def _rank_of_op(members: dict[str, list[CheckResult]]) -> int:
    return min(_rank(results) for results in members.values())
