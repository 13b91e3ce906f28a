# SPDX-License-Identifier: MIT
"""Show, join and compare the reports that `pytest --cutile-rs` writes; nothing here runs a kernel or fails a gate.

    tilegym-rs report show [RUN]
    tilegym-rs report html [RUN] [--to FILE]
    tilegym-rs report merge SHARD SHARD ... --to DIR
    tilegym-rs report compare BEFORE AFTER
    tilegym-rs report trend [RUN ...]

RUN is a summary.json, a folder that holds one, the id of a run that `--cutile-rs-save` kept, `last`, or `last~1` for
the one before it. Without one it is the newest report in --out.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from . import print_json

if TYPE_CHECKING:
    from pytest_cutile_rs.report.table import Table

HELP = "show, merge or compare parity reports"
FORMATS = ("text", "markdown", "json")
STANDARD_OUTPUT = Path("-")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the actions and their arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    show = _action(actions, "show", "print a run's table and verdict", _show)
    show.add_argument("report", metavar="RUN", nargs="?")
    show.add_argument("--format", choices=(*FORMATS, "csv"), default="text", help="default: %(default)s")
    show.add_argument("-v", "--verbose", action="count", default=0, help="each measured case too")

    page = _action(actions, "html", "write a run's page again, with the history as it is now", _html)
    page.add_argument("report", metavar="RUN", nargs="?")
    page.add_argument("--to", type=Path, metavar="FILE", help="default: summary.html in --out; - for standard output")

    merge = _action(actions, "merge", "join the shards of one run", _merge)
    merge.add_argument("reports", metavar="SHARD", nargs="+", type=Path, help="summary.json, or its folder")
    merge.add_argument("--to", type=Path, metavar="DIR", required=True, help="folder for the joined report")
    merge.add_argument("--save", action="store_true", help="keep it among the saved runs of that folder")

    compare = _action(actions, "compare", "what changed between two runs, the largest change first", _compare)
    compare.add_argument("before", metavar="BEFORE")
    compare.add_argument("after", metavar="AFTER")
    compare.add_argument("--all", action="store_true", help="results without a clear change too")
    _common(compare)

    trend = _action(actions, "trend", "how the ops developed over saved runs", _trend)
    trend.add_argument("reports", metavar="RUN", nargs="*", help="default: all that are saved in --out")
    trend.add_argument("--op", default="", help="this op alone")
    trend.add_argument("--cases", action="store_true", help="a line per case instead of per op and dtype")
    trend.add_argument("--last", type=int, default=8, metavar="N", help="columns: the newest N runs (default: 8)")
    _common(trend)


def run(options: argparse.Namespace) -> int:
    """Do it; the exit status is 0 whatever the reports say."""
    work: Callable[[argparse.Namespace], int] = options.work
    return work(options)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    text: str,
    work: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=text, description=text)
    parser.set_defaults(work=work)
    if work is not _merge:
        default, text = Path(".cutile_rs"), "folder of the reports (default: %(default)s)"
        parser.add_argument("-o", "--out", type=Path, default=default, metavar="DIR", help=text)
    return parser


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--across-machines", action="store_true", help="runs of other machines too")
    parser.add_argument("--format", choices=FORMATS, default="text", help="default: %(default)s")


def _show(options: argparse.Namespace) -> int:
    from pytest_cutile_rs.report import csv
    from pytest_cutile_rs.report import markdown
    from pytest_cutile_rs.report import terminal
    from pytest_cutile_rs.report.runs import find

    report = find(options.report or str(options.out), options.out)
    if options.format == "text":
        print("\n".join(line for line, _ in terminal.lines(report, options.verbose)))
        print(report.verdict())
    elif options.format == "json":
        print_json(report.to_dict())
    else:
        print({"markdown": markdown, "csv": csv}[options.format].render(report), end="")
    return 0


def _html(options: argparse.Namespace) -> int:
    from pytest_cutile_rs.report import html
    from pytest_cutile_rs.report.runs import find
    from pytest_cutile_rs.report.runs import history

    from .. import atomic

    page = html.render(find(options.report or str(options.out), options.out), history(options.out))
    target = options.to or options.out / "summary.html"
    if target == STANDARD_OUTPUT:
        print(page, end="")
        return 0
    atomic.write(target, page)
    print(target)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from pytest_cutile_rs.report.merge import merge
    from pytest_cutile_rs.report.merge import missing_shards
    from pytest_cutile_rs.report.read import load
    from pytest_cutile_rs.report.write import write_all

    reports = [load(path) for path in options.reports]
    merged = merge(reports, [str(path) for path in options.reports])
    write_all(options.to, merged, merged.to_dict(), save=options.save)
    absent = missing_shards(reports)
    if absent:
        print(f"shards missing: {', '.join(absent)}; the joined report is incomplete")
    print(f"{len(reports)} reports, {len(merged.results)} results: {options.to}")
    print(merged.verdict())
    return 0


def _compare(options: argparse.Namespace) -> int:
    from pytest_cutile_rs.report.compare import compare
    from pytest_cutile_rs.report.runs import find

    sides = [find(name, options.out) for name in (options.before, options.after)]
    found = compare(sides[0], sides[1], across_machines=options.across_machines)
    if options.format == "json":
        print_json(found.to_dict())
        return 0
    _print(found.table(options.all), found.notes(), options.format)
    return 0


def _trend(options: argparse.Namespace) -> int:
    from pytest_cutile_rs.report.read import ReportError
    from pytest_cutile_rs.report.runs import FOLDER
    from pytest_cutile_rs.report.runs import find
    from pytest_cutile_rs.report.runs import history
    from pytest_cutile_rs.report.trend import trend

    reports = [find(name, options.out) for name in options.reports] or history(options.out)
    if not reports:
        raise ReportError(
            f"no run is saved in {options.out / FOLDER}. `pytest --cutile-rs --cutile-rs-save` saves one."
        )
    found = trend(reports, op=options.op, by_case=options.cases, across_machines=options.across_machines)
    if options.format == "json":
        print_json(found.to_dict())
        return 0
    notes = [f"{found.left_out} runs of other machines are left out"] if found.left_out else []
    _print(found.table(max(1, options.last)), notes, options.format)
    return 0


def _print(table: Table, notes: list[str], form: str) -> None:
    for line in notes:
        print(f"- {line}" if form == "markdown" else line)
    if table.rows:
        print()
        print("\n".join(table.markdown() if form == "markdown" else table.lines()))
