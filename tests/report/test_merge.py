# SPDX-License-Identifier: MIT
"""Shards join to what the run would have written unsplit, and nothing else joins."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from report_example import report

from pytest_cutile_rs.report.merge import merge
from pytest_cutile_rs.report.merge import missing_shards
from pytest_cutile_rs.report.model import Report
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.tilegym import TilegymResults

APART = ("run", "started", "finished", "command", "noise_floor")


def parts(whole: Report, count: int = 3) -> list[Report]:
    """The run as it would have been in ``count`` shards: cases dealt out in turn."""
    cases = sorted({(one.op, one.case) for one in whole.results})
    found = []
    for index in range(count):
        mine = [one for one in whole.results if cases.index((one.op, one.case)) % count == index]
        tilegym = TilegymResults()
        if index == 1:
            tilegym = TilegymResults(3, ["tests/ops/test_alpha.py::test_x[1]"])
        found.append(
            dataclasses.replace(
                whole,
                results=mine,
                selected=len(mine),
                seconds={one.nodeid: whole.seconds[one.nodeid] for one in mine},
                started=whole.started + index,
                run={"id": f"part{index}", "shard": f"{index + 1}/{count}"},
                options={**whole.options, "shard": f"{index + 1}/{count}"},
                tilegym=tilegym,
            )
        )
    return found


def content(one: Report) -> dict[str, Any]:
    return {name: value for name, value in one.to_dict().items() if name not in APART}


def test_shards_join_to_the_unsplit_report_in_any_order() -> None:
    whole = report(shard="1/1")
    for order in itertools.permutations(parts(whole)):
        merged = merge(order)
        assert content(merged) == content(whole)
        assert merged.run["merged_from"] == ["part0", "part1", "part2"]
        assert merged.extra["noise_floor"]["relative"] == whole.extra["noise_floor"]["relative"]
        assert (merged.started, merged.finished) == (whole.started, whole.finished)
    assert merge(parts(whole)).run["id"] == merge(parts(whole)[::-1]).run["id"]


def test_a_joined_report_is_a_report_again() -> None:
    first = merge(parts(report(), 3)[:2])
    assert first.complete is False
    assert missing_shards(parts(report(), 3)[:2]) == ["3/3"]
    assert first.verdict().startswith("VERDICT: FAIL")  # what failed, failed


def test_an_incomplete_shard_makes_an_incomplete_report() -> None:
    shards = parts(report())
    shards[1] = dataclasses.replace(shards[1], complete=False, selected=9)
    merged = merge(shards)
    assert merged.complete is False
    assert merged.selected == sum(one.selected for one in shards)


def other(one: Report, **facts: Any) -> Report:
    return dataclasses.replace(one, facts={**one.facts, **facts})


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"library_build_id": "eeee"}, ["library build: 1234abcd (a), eeee (b)"]),
        ({"gpu": "NVIDIA Other"}, ["GPU model: NVIDIA Example (a), NVIDIA Other (b)"]),
        (
            {"driver": "1.1", "arch": "sm_100"},
            ["driver: 999.10 (a), 1.1 (b)", "arch: sm_90 (a), sm_100 (b)"],
        ),
        ({"packages": {"torch": "2.12.0"}}, ["torch: 2.11.0 (a), 2.12.0 (b)"]),
    ],
)
def test_strangers_are_refused_by_what_differs(change: dict[str, Any], names: list[str]) -> None:
    first, second, _ = parts(report())
    with pytest.raises(ReportError) as refused:
        merge([first, other(second, **change)], ["a", "b"])
    text = str(refused.value)
    assert [line.strip() for line in text.splitlines()[1:-1]] == names
    assert "are not parts of one run, they differ in" in text
    assert "`tilegym-rs report compare` sets two different runs side by side" in text


def test_a_shard_that_never_loaded_the_library_is_no_stranger() -> None:
    shards = parts(report())
    shards[0] = other(shards[0], backend={}, library_build_id=None, gpu=None)
    merged = merge(shards)
    assert merged.facts["library_build_id"] == "1234abcd"
    assert merged.facts["backend"] == {"library_build_id": "1234abcd", "tileiras": "13.4.92"}


def test_another_seed_threshold_or_split_is_refused() -> None:
    first, second, third = parts(report())
    with pytest.raises(ReportError, match=r"seed: 7 \(report 1\), 8 \(report 2\)"):
        merge([first, dataclasses.replace(second, options={**second.options, "seed": 8})])
    with pytest.raises(ReportError, match=r"threshold: 0.95 \(report 1\), 0.9 \(report 2\)"):
        merge([first, dataclasses.replace(second, options={**second.options, "threshold": 0.9})])
    with pytest.raises(ReportError, match=r"number of shards: 3 \(report 1\), 4 \(report 2\)"):
        merge([first, dataclasses.replace(third, run={"id": "x", "shard": "4/4"})])


def test_the_same_result_twice_is_refused() -> None:
    first, second, _ = parts(report())
    with pytest.raises(ReportError, match=r"results are in two reports, .* Give each shard once."):
        merge([first, second, first])


def test_nothing_to_merge() -> None:
    with pytest.raises(ReportError, match="nothing to merge"):
        merge([])


def test_gpus_of_several_hosts_are_listed_together() -> None:
    shards = parts(report())
    second = {**shards[1].facts["gpus"][0], "uuid": "GPU-2"}
    shards[1] = other(shards[1], gpus=[second])
    assert [gpu["uuid"] for gpu in merge(shards).facts["gpus"]] == ["GPU-1", "GPU-2"]
