# SPDX-License-Identifier: MIT
"""Whole runs over the fake device: each verdict with its exit status, and each option of the gate."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

ITEM = "cutile_rs::perf::alpha[f16-4x8]"


@pytest.mark.parametrize(
    ("gate", "status", "code"),
    [
        ({"us": {"rs": 20, "py": 25}}, "PASS", "ci_above"),
        ({"us": {"rs": 20, "py": 18}}, "FAIL", "ci_below"),
        ({"us": {"rs": 20, "py": 19}, "noise": 0.02}, "AMBIGUOUS", "ci_straddles"),
        ({"kernels": {"py": ["at::native_add"]}}, "UNFAIR", "foreign_kernel"),
        ({"kernels": {"rs": ["memcpy", "rs_kernel"]}}, "UNFAIR", "stray_copy"),
        ({"expected": ["another"]}, "UNFAIR", "kernel_mismatch"),
        ({"kernels": {"py": ["py_kernel", "py_kernel"]}}, "UNFAIR", "kernel_mismatch"),
        ({"tileiras": {"py": "t2"}}, "UNFAIR", "tileiras_differs"),
        ({"drop_rate": 0.05}, "NOISY", "discards"),
        ({"kernels": {"py": []}}, "NO-DATA", "no_kernels"),
        ({"raises": "py"}, "NO-DATA", "side_error"),
        ({"no_clock": True}, "NO-DATA", "cupti_held"),
        ({"raises": "rs"}, "NO-DATA", "noise_floor_unknown"),
    ],
)
def test_each_verdict_and_its_exit_status(gated, gate: dict[str, Any], status: str, code: str) -> None:
    result = gated(**gate)
    [one] = [found for found in gated.summary()["results"] if found["check"] == "perf"]
    assert (one["status"], one["data"]["code"]) == (status, code), one["reason"]
    failing = status not in ("PASS", "AMBIGUOUS")
    assert result.ret == (pytest.ExitCode.TESTS_FAILED if failing else 0)
    if failing:
        shown = "" if status == "FAIL" else f"{status} "
        result.stdout.fnmatch_lines([f"VERDICT: FAIL {shown}*", "VERDICT: FAIL failed: 1 perf"])


def test_a_failure_carries_everything_one_would_ask_next(gated) -> None:
    result = gated(ITEM, "--cutile-rs-seed", "7", "--cutile-rs-threshold", "0.97", us={"rs": 20, "py": 18})
    result.stdout.fnmatch_lines(
        [
            "speedup * against 0.97*",
            "speedup * 95 % interval * to *, threshold 0.97 (ci_below; 20 blocks)",
            "cuTile Python  1*.* us (host * us); kernels: py_kernel",
            "ours           *.* us (host * us); kernels: rs_kernel",
            "before         SM 1980 MHz",
            "noise floor * 0.*%; 20 blocks, discarded none",
            "seed           7; timer fake",
            "repeat: pytest 'cutile_rs::perf::alpha[[]f16-4x8[]]' --cutile-rs-seed 7 --cutile-rs-threshold 0.97",
            "VERDICT: FAIL speedup*",
        ]
    )


def test_the_noise_floor_is_measured_once_and_shown(gated) -> None:
    result = gated("--cutile-rs", "--cutile-rs-checks", "numerics,perf", us={"rs": 60, "py": 75})
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["cutile-rs: *noise floor: 3 A/A cases before the first*", "noise floor 0.*%: equal sides, 3 A/A cases"]
    )
    written = gated.summary()
    [floor] = written["noise_floor"]["measured"]
    assert floor["gpu"] == "GPU-0"
    assert written["noise_floor"]["relative"] == floor["relative"] < 0.02
    assert len({case["name"] for case in floor["cases"]}) == 3
    assert all(case["us"] == pytest.approx(60, rel=0.02) for case in floor["cases"])
    perf = [one for one in written["results"] if one["check"] == "perf"]
    assert {one["data"]["noise_floor"] for one in perf} == {floor["relative"]}


@pytest.mark.parametrize(("count", "cases"), [("2", 2), ("0", None)])
def test_the_number_of_equal_pairs_is_an_option(gated, count: str, cases: int | None) -> None:
    result = gated("--cutile-rs", "--cutile-rs-checks", "perf", "--cutile-rs-self-check", count)
    assert result.ret == 0
    floor = gated.summary()["noise_floor"]
    assert (floor and len(floor["measured"][0]["cases"])) == cases
    if cases is None:
        result.stdout.fnmatch_lines(["*noise floor: not measured*"])


def test_a_machine_that_tells_equal_sides_apart_judges_nothing(gated) -> None:
    result = gated(us={"rs": 200, "py": 300}, noise=0.5)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*VERDICT: FAIL NOISY two equal sides come *% apart here*"])


@pytest.mark.parametrize(
    ("choice", "outcome", "code", "last"),
    [
        ("xfail", {"xfailed": 1}, 0, "VERDICT: NOT-RUN nothing of ours passed; 1 AMBIGUOUS"),
        ("pass", {"passed": 1}, 0, "VERDICT: NOT-RUN nothing of ours passed; 1 AMBIGUOUS"),
        ("fail", {"failed": 1}, 1, "VERDICT: FAIL failed: 1 perf"),
    ],
)
def test_what_becomes_of_ambiguous(gated, choice: str, outcome: dict[str, int], code: int, last: str) -> None:
    result = gated(ITEM, "--cutile-rs-ambiguous", choice, us={"rs": 20, "py": 19}, noise=0.02)
    result.assert_outcomes(**outcome)
    assert result.ret == code
    assert last in result.outlines
    assert gated.summary()["run"]["ambiguous"] == choice


def test_thresholds_of_the_project_are_per_op_and_the_command_line_wins(gated) -> None:
    gated.project("[tool.cutile_rs.thresholds]\nalpha = 0.85\n")
    both = ("--cutile-rs", "--cutile-rs-checks", "perf", "-k", "f16")
    slow = {"us": {"rs": 20, "py": 18}}
    result = gated(*both, **slow)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["cutile-rs: * threshold 0.95 (alpha 0.85)*"])
    written = gated.summary()
    assert written["run"]["thresholds"] == {"alpha": 0.85}
    assert {one["op"]: (one["verdict"], one["threshold"]) for one in written["op_verdicts"]} == {
        "alpha": ("PASS", 0.85),
        "beta": ("FAIL", 0.95),
    }
    gated(*both, "--cutile-rs-threshold", "0.8", **slow).assert_outcomes(passed=2)
    gated.parity.pytester.makeini("[pytest]\ncutile_rs_threshold = 0.8")
    gated(*both, **slow).assert_outcomes(passed=2)


def test_the_event_timer_is_named_gates_and_admits_what_it_cannot_see(gated) -> None:
    gated.own_clock()
    slow = {"us": {"rs": 200, "py": 180}, "kernels": {"rs": ["rs_kernel", "memcpy"]}}
    result = gated(ITEM, "--cutile-rs-timer", "event", **slow)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["cutile-rs: device time by event;*", "*kernels: event-interval", "*; timer event"])
    written = gated.summary()
    [one] = [found for found in written["results"] if found["check"] == "perf"]
    assert (one["status"], one["data"]["code"], one["data"]["timer"]) == ("FAIL", "ci_below", "event")
    assert written["options"]["timer"] == "event"


def test_cupti_that_is_not_there_is_no_data_and_no_other_clock_steps_in(gated) -> None:
    gated.own_clock()
    result = gated(ITEM, us={"rs": 20, "py": 25})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    [one] = [found for found in gated.summary()["results"] if found["check"] == "perf"]
    assert (one["status"], one["data"]["code"]) == ("NO-DATA", "no_gpu"), one["reason"]


def test_an_unknown_timer_is_a_usage_error(gated) -> None:
    result = gated(ITEM, "--cutile-rs-timer", "stopwatch")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cutile-rs-timer*stopwatch*cupti*event*"])


def waiver(expires: object, threshold: object = '"any"', case: str = "f16-*") -> str:
    return (
        f'[[tool.cutile_rs.waivers]]\nop = "alpha"\ncase = "{case}"\nthreshold = {threshold}\n'
        f'reason = "waits for a new kernel"\nexpires = {expires}\n'
    )


def test_a_waived_failure_does_not_fail_the_run_and_is_counted_apart(gated) -> None:
    day = datetime.date.today() + datetime.timedelta(days=30)
    gated.project(waiver(day) + waiver(f'"{day}"', case="f32-2*"))
    result = gated("--cutile-rs", "--cutile-rs-checks", "perf", "-k", "alpha", cases={"f16-4x8": {"py": 18}})
    assert result.ret == 0
    result.assert_outcomes(passed=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            f"WAIVED 1 by alpha[[]f16-*[]] down to any, until {day}: waits for a new kernel; cutile_rs::perf::alpha*",
            "unused waiver alpha[[]f32-2*[]] * (no timed case of this run matches)",
            "VERDICT: PASS passed: 1 perf; 1 WAIVED",
        ]
    )
    written = gated.summary()
    assert written["counts"] == {"PASS": 1, "WAIVED": 1}
    assert [one["used"] for one in written["waivers"]] == [[ITEM], []]
    [op] = written["op_verdicts"]
    assert (op["verdict"], op["counts"]) == ("PASS", {"PASS": 1, "WAIVED": 1})
    waived = next(one for one in written["results"] if one["status"] == "WAIVED")
    assert waived["data"]["waived"]["status"] == "FAIL"
    assert waived["data"]["ratio"] == pytest.approx(0.9, rel=0.02)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (waiver("2020-01-01"), "*waiver 1 (alpha[[]f16-*[]]) expired on 2020-01-01: waits for a new kernel. Fix*"),
        (waiver('"soon"'), "*waiver 1 (alpha[[]f16-*[]]): expires = 'soon' is no day; write YYYY-MM-DD"),
        (waiver("2990-01-01", "true"), "*waiver 1 (alpha[[]f16-*[]]): threshold = True; write the ratio*"),
        (waiver("2990-01-01").replace("reason", "why"), "*waiver 1 (*) lacks reason and has unknown why; *"),
        (waiver("2990-01-01").replace('"alpha"', '"gamma"'), "*about the unknown op gamma; known are alpha,*"),
        ("[tool.cutile_rs.thresholds]\ngamma = 0.9\n", "*about the unknown op gamma; known are alpha,*"),
        ('[tool.cutile_rs.thresholds]\nalpha = "high"\n', "*thresholds] alpha = 'high' is no ratio above 0*"),
        ("[tool.cutile_rs]\nwaiver = []\n", "*[[]tool.cutile_rs[]] has no waiver; it has thresholds, waivers"),
    ],
)
def test_a_bad_table_is_a_usage_error_that_names_the_entry(gated, text: str, message: str) -> None:
    gated.project(text)
    result = gated()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_published_protocol_is_reported_and_never_gates(gated) -> None:
    chosen = ("--cutile-rs", "--cutile-rs-checks", "perf", "-k", "f16", "--cutile-rs-protocol", "best-of-4")
    result = gated(*chosen, us={"rs": 20, "py": 25})
    assert result.ret == 0
    result.stdout.fnmatch_lines(["best-of-4 (never gates): geomean 1.2*, ours 1.2* over 2 cases"])
    figures = gated.summary()["protocol"]
    assert (figures["name"], figures["gates"], figures["cases"], figures["errors"]) == ("best-of-4", False, 2, 0)
    assert figures["geomean"] == pytest.approx(1.25, rel=0.03)
    gated(ITEM)
    assert gated.summary()["protocol"] is None


def test_a_gpu_without_a_peer_proves_nothing(gated) -> None:
    result = gated("--cutile-rs", "--cutile-rs-checks", "numerics,perf", no_peer="TileGym is not installed")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    last = "there is a GPU, but none of 4 cases was measured: TileGym is not installed"
    result.stdout.fnmatch_lines([f"NOTHING CHECKED: {last}", f"VERDICT: NOT-RUN {last}"])
    assert gated.summary()["verdict"] == f"VERDICT: NOT-RUN {last}"


def test_an_op_below_its_threshold_by_its_mean_fails_the_run(gated) -> None:
    result = gated(ITEM, "--cutile-rs-threshold", "1.01", us={"rs": 2.0, "py": 2.0})
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["VERDICT: FAIL alpha: geomean 1.000 * against 1.01; 1 PASS"])


def test_the_machine_and_the_run_are_in_the_record(gated) -> None:
    gated(ITEM)
    written = gated.summary()
    machine = written["machine"]
    assert (machine["library_build_id"], machine["gpu"], machine["gpu_uuids"]) == ("b1", "Fake GPU", ["GPU-0"])
    assert "driver" in machine
    assert written["run"]["shard"] == "1/1"
    [perf] = [one["data"] for one in written["results"] if one["check"] == "perf"]
    assert perf["record"]["machine"] == {"before": {"sm_mhz": 1980}, "after": {"sm_mhz": 1980}}
    assert set(perf["host_us"]) == {"rs", "py", "torch"}
    assert perf["tileiras"] == {"rs": "t1", "py": "t1"}
    json.dumps(written, allow_nan=False)
