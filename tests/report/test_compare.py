# SPDX-License-Identifier: MIT
"""Two runs side by side, and many in a row."""

from __future__ import annotations

import dataclasses

import pytest
from report_example import STARTED
from report_example import report

from pytest_cutile_rs.report.compare import compare
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.trend import trend
from pytest_cutile_rs.result import CheckResult

HOUR = 3600.0


def changed(base: Report, nodeid: str, **fields: object) -> Report:
    """The run with one result replaced; without fields it is gone."""
    found: list[CheckResult] = []
    for one in base.results:
        if one.nodeid != nodeid:
            found.append(one)
        elif fields:
            found.append(dataclasses.replace(one, **fields))  # type: ignore[arg-type]
    return dataclasses.replace(base, results=found)


def later() -> Report:
    """A day on: one case slower, one lost, one worse, one better, one with other machine code."""
    run = changed(
        report(ident="later", started=STARTED + 24 * HOUR), "cutile_rs::numerics::gamma[f16-2x2]", status="PASS"
    )
    run = changed(run, "cutile_rs::numerics::alpha[f16-64x1024]", status="FAIL", reason="3 values differ")
    run = changed(run, "cutile_rs::perf::beta[bf16-1x1]")
    slow = next(one for one in run.results if one.nodeid == "cutile_rs::perf::alpha[f16-4096x4096]")
    times = slow.data | {"ratio": 1.5, "low": 1.49, "high": 1.51, "us": slow.data["us"] | {"rs": 11.07}}
    run = changed(run, slow.nodeid, data=times)
    same = next(one for one in run.results if one.nodeid == "cutile_rs::sass::beta[bf16-100x100-ported]")
    return changed(run, same.nodeid, data=same.data | {"identical": False})


def test_compare_tells_what_changed_largest_change_first(golden) -> None:
    found = compare(report(), later())
    golden("compare.txt", "\n".join([*found.notes(), "", *found.table().lines()]) + "\n")
    golden("compare.md", "\n".join(found.table().markdown()) + "\n")
    assert [change.outcome for change in found.changes[:5]] == ["worse", "better", "structure", "gone", ""]
    assert found.changes[4].factor == pytest.approx(1.5 / 1.662, rel=1e-3)
    assert len(found.changes) == len(report().results)


def test_equal_runs_have_no_change() -> None:
    found = compare(report(), report(ident="again"))
    assert not found.table().rows
    assert len(found.table(everything=True).rows) == len(report().results)
    assert found.notes() == ["24 of 24 results have the same outcome"]


def test_a_change_within_the_intervals_is_not_called_clear() -> None:
    undecided = "cutile_rs::perf::alpha[f32-8x8]"
    found = {change.nodeid: change for change in compare(report(), report(gain=1.01)).changes}
    assert found[undecided].factor == pytest.approx(1.01, rel=1e-3)
    assert not found[undecided].clear
    assert found["cutile_rs::perf::alpha[f16-4096x4096]"].clear


def elsewhere() -> Report:
    run = report(ident="elsewhere", started=STARTED + 48 * HOUR)
    return dataclasses.replace(run, facts=run.facts | {"gpu": "NVIDIA Other"})


def test_other_machines_only_when_asked_for() -> None:
    with pytest.raises(ReportError) as refused:
        compare(report(), elsewhere())
    text = str(refused.value)
    assert "of different machines (GPU model: NVIDIA Example and NVIDIA Other)" in text
    assert "pass --across-machines" in text
    found = compare(report(), elsewhere(), across_machines=True)
    assert found.notes()[0] == "GPU model: NVIDIA Example before, NVIDIA Other after"


def test_trend_over_saved_runs(golden) -> None:
    runs = [report(ident=f"run{i}", started=STARTED + i * HOUR, gain=1 + i / 100) for i in range(3)]
    found = trend([runs[2], elsewhere(), runs[0], runs[1], runs[1]], across_machines=True)
    assert [run.run["id"] for run in found.runs] == ["run0", "run1", "run2", "elsewhere"]
    found = trend([runs[2], runs[0], runs[1]])
    golden("trend.txt", "\n".join(found.table().lines()) + "\n")
    assert found.table(last=2).head == ("t_py/t_rs", "2026-09-21 15:13", "2026-09-21 16:13", "change")


def test_trend_leaves_other_machines_out_and_counts_them() -> None:
    found = trend([report(), elsewhere()])
    assert [run.run["id"] for run in found.runs] == ["elsewhere"]
    assert found.left_out == 1


def test_trend_of_one_op_by_case() -> None:
    found = trend([report()], op="beta", by_case=True)
    assert list(found.lines) == [f"beta[bf16-{name}]" for name in ("100x100-ported", "1x1", "2x2", "3x3", "4x4", "5x5")]
    assert found.lines["beta[bf16-1x1]"][0].text == "1 failed"
    assert found.lines["beta[bf16-100x100-ported]"][0].text == "0.999"
