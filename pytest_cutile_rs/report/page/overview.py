# SPDX-License-Identifier: MIT
"""The top of the page: verdict, facts, the ops with their four levels of parity, differences, what did not run."""

from __future__ import annotations

from pytest_cutile_rs.report import terminal
from pytest_cutile_rs.report.identity import identity
from pytest_cutile_rs.report.identity import machine_text
from pytest_cutile_rs.report.merge import missing_shards
from pytest_cutile_rs.report.merge import shard
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.model import op_verdict
from pytest_cutile_rs.report.model import ratios
from pytest_cutile_rs.report.model import utc
from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import facts
from pytest_cutile_rs.report.page.markup import flat
from pytest_cutile_rs.report.page.markup import join
from pytest_cutile_rs.report.page.markup import number
from pytest_cutile_rs.report.page.markup import status
from pytest_cutile_rs.report.page.markup import table
from pytest_cutile_rs.report.page.markup import tag
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import worst

HEAD = ("op", "dtype", "variant", "numbers", "Tile IR", "machine code", "device time (t_py/t_rs)")


def header(report: Report) -> Markup:
    """Verdict and facts of the run."""
    known = identity(report)
    word, _, reason = report.verdict().removeprefix("VERDICT: ").partition(" ")
    notes = []
    if not report.complete:
        absent = missing_shards([report])
        part = f" It is shard {'/'.join(map(str, found))}." if (found := shard(report)) else ""
        text = f"This run is incomplete: {len(report.results)} of {report.selected} selected checks ended."
        notes.append(tag("p", text + part, class_="note incomplete", data_missing=", ".join(absent) or None))
    elif found := shard(report):
        notes.append(tag("p", f"This is shard {found[0]} of {found[1]}.", class_="note"))
    machine = dict(report.facts)
    shown = facts(
        [
            ("run", join(report.run.get("id", ""), " ", tag("time", utc(report.started)))),
            ("took", f"{report.finished - report.started:.0f} s"),
            ("machine", machine_text(report)),
            ("library build", known["library build"]),
            ("tileiras", known["tileiras"]),
            ("device time", _geomean(report)),
            ("threshold", known["threshold"]),
            ("seed", known["seed"]),
            ("noise floor", _noise(report)),
            ("command", tag("code", " ".join(["pytest", *report.command]))),
        ]
    )
    more = tag("details", tag("summary", "all facts and options"), facts(flat(machine)), facts(flat(report.options)))
    title = tag("h1", "cutile-rs parity")
    return tag("header", title, tag("p", status(word), " ", reason, class_="verdict"), notes, shown, more)


def ops(report: Report) -> Markup:
    """One row per op and dtype, worst first."""
    groups = report.groups()
    if not groups:
        return Markup()
    rows = []
    for group, cells in zip(groups, terminal.rows(report), strict=True):
        name = tag("a", group.op, href=f"#op-{group.op}")
        levels = [_level(group.of(check), cell) for check, cell in zip(_CHECKS, cells[3:], strict=True)]
        rows.append([name, *cells[1:3], *levels])
    return _section("ops", "Ops", table(HEAD, rows, "ops"))


def differences(report: Report) -> Markup:
    """The kinds of difference in Tile IR and machine code."""
    found = report.differences()
    if not found:
        return Markup()
    rows = [
        (check, tag("code", category), len(where), tag("code", where[0]), text)
        for (check, category), (text, where) in found.items()
    ]
    return _section("differences", "Differences", table(("check", "category", "cases", "such as", "there"), rows))


def idle(report: Report) -> Markup:
    """What did not run, and why."""
    found = sorted(report.not_run().items())
    if not found:
        return Markup()
    rows = [(check, count, reason) for (check, reason), count in found]
    return _section("not-run", "Not run", table(("check", "count", "why"), rows))


def tilegym(report: Report) -> Markup:
    """TileGym's own tests, when they ran."""
    found = report.tilegym
    if found is None:
        return Markup()
    text = f"{found.passed} passed, {len(found.failed)} failed, {sum(found.skipped.values())} skipped"
    names = tag("ul", [tag("li", tag("code", name)) for name in sorted(found.failed)]) if found.failed else None
    skipped = table(("count", "skipped because"), [(count, why) for why, count in sorted(found.skipped.items())])
    return _section("tilegym", "TileGym's tests", tag("p", text), names, skipped if found.skipped else None)


def verdicts(report: Report) -> Markup:
    """The last line of every check of every op."""
    lines = [f"{op} {check} {op_verdict(results)}" for check in _CHECKS for op, results in report.by_op(check).items()]
    inside = tag("pre", "\n".join(lines))
    return tag("details", tag("summary", "the verdict line of every check"), inside) if lines else Markup()


def _level(results: list, cell: str) -> Markup:  # type: ignore[type-arg]
    if not results:
        return tag("span", "-", class_="level")
    found = worst(one.status for one in results if one.status != NOT_RUN) if cell != "not run" else NOT_RUN
    return tag("span", cell, class_=f"level {found.lower()}")


def _section(ident: str, title: str, *inside: object) -> Markup:
    return tag("section", tag("h2", title), *inside, id=ident)


def _geomean(report: Report) -> str:
    measured = [one for one in report.results if one.check == "perf" and one.data.get("counted")]
    mean, low = ratios(measured)
    return "" if mean is None else f"geomean {mean:.3f}, lowest {low:.3f} of {len(measured)} cases"


def _noise(report: Report) -> str:
    found = report.extra.get("noise_floor")
    if isinstance(found, dict):
        found = found.get("relative")
    return f"{number(found * 100, '.2f')} %" if isinstance(found, float) else ""


_CHECKS = ("numerics", "ir", "sass", "perf")
