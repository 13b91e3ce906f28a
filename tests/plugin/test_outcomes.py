# SPDX-License-Identifier: MIT
from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_cutile_rs.report.schema import SCHEMA


def summary(parity) -> dict[str, Any]:
    return json.loads((parity.pytester.path / ".cutile_rs" / "summary.json").read_text())


def conforms(value: Any, schema: dict[str, Any], where: str = "$") -> None:
    """The part of JSON Schema that SCHEMA uses."""
    kinds = {"object": dict, "array": list, "string": str, "number": (int, float), "boolean": bool, "null": type(None)}
    kinds["integer"] = int
    wanted = schema.get("type", [])
    wanted = [wanted] if isinstance(wanted, str) else wanted
    assert not wanted or any(isinstance(value, kinds[name]) for name in wanted), where
    assert "const" not in schema or value == schema["const"], where
    assert "enum" not in schema or value in schema["enum"], where
    assert "pattern" not in schema or re.search(schema["pattern"], value), where
    for name in schema.get("required", ()):
        assert name in value, f"{where}.{name}"
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            conforms(value[name], inner, f"{where}.{name}")
    for index, entry in enumerate(value if "items" in schema else ()):
        conforms(entry, schema["items"], f"{where}[{index}]")


def test_without_a_gpu_ir_and_sass_run_and_the_rest_says_why(parity) -> None:
    result = parity("--cutile-rs")
    assert result.ret == 0
    result.assert_outcomes(passed=16, skipped=12)
    result.stdout.fnmatch_lines(
        [
            "op * dtype * numerics * Tile IR * machine code * t_py/t_rs",
            "alpha * f16 * not run * 2/2 * 2/2 * not run",
            "not run: 8 numerics: no CUDA device: this is a test",
            "not run: 4 perf: no CUDA device: this is a test",
            "alpha numerics VERDICT: NOT-RUN*",
            "alpha ir VERDICT: PASS 4 cases",
            "VERDICT: PASS passed: 8 ir, 8 sass; not run: 8 numerics, 4 perf",
        ]
    )
    written = summary(parity)
    conforms(written, SCHEMA)
    assert written["complete"] is True
    assert written["counts"] == {"NOT-RUN": 12, "PASS": 16}
    check = json.loads((parity.pytester.path / ".cutile_rs" / "alpha" / "ir.json").read_text())
    assert list(check)[-1] == "verdict"
    assert check["verdict"] == "VERDICT: PASS 4 cases"
    assert (parity.pytester.path / ".cutile_rs" / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "nothing_is_called_this"],
        ["--cutile-rs-checks", "numerics,perf"],
        ["--cutile-rs-checks", "ir", "--cutile-rs-min-cases", "9"],
    ],
)
def test_a_run_that_checked_nothing_fails_loudly(parity, arguments: list[str]) -> None:
    result = parity("--cutile-rs", *arguments)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["NOTHING CHECKED: * checks gave an answer, at least * have to", "VERDICT: NOT-RUN *"])


def test_what_is_built_first_is_told_before_the_first_item_and_only_for_the_chosen_cases(parity) -> None:
    parity.monkeypatch.setenv("FAKE_READY", "builds for")
    found = parity("--cutile-rs", "-k", "alpha and f16 and ir")
    assert "tilegym-rs: builds for 2" in found.errlines
    assert not any("builds" in line for line in found.outlines)
    assert not any("builds" in line for line in parity("--cutile-rs", "--collect-only").errlines)


def test_a_preparation_that_fails_leaves_the_word_to_the_cases(parity) -> None:
    conftest = parity.pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + "\ndef fail(*_): raise RuntimeError('no cargo')\nBackend.ready = fail\n")
    found = parity("--cutile-rs", "-k", "alpha and f16 and ir")
    found.assert_outcomes(passed=2)
    assert any("preparation stopped (RuntimeError: no cargo)" in line for line in found.errlines)


def test_a_failure_shows_its_message_and_the_command_that_repeats_it(parity) -> None:
    result = parity("--cutile-rs", "--cutile-rs-seed", "7", answers={"ir:alpha[f16-4x8]": "FAIL"})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "the long message",
            "repeat: pytest 'cutile_rs::ir::alpha[[]f16-4x8[]]' --cutile-rs-seed 7",
            "VERDICT: FAIL as told, FAIL",
            "alpha * f16 *1/2 1 FAIL*",
            "VERDICT: FAIL failed: 1 ir",
        ]
    )


def test_a_fault_is_a_failure_with_a_traceback(parity) -> None:
    result = parity("--cutile-rs", answers={"sass:beta[f16-4x8]": "raise"})
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*RuntimeError: a fault of the op", "VERDICT: FAIL failed: 1 sass"])
    failed = [one for one in summary(parity)["results"] if one["status"] == "FAIL"]
    assert [(one["id"], one["reason"]) for one in failed] == [
        ("cutile_rs::sass::beta[f16-4x8]", "RuntimeError: a fault of the op")
    ]


def test_perf_runs_only_where_numerics_passed(parity) -> None:
    answers = {"numerics:alpha[f16-4x8]": "FAIL", "numerics:beta[f32-4x8]": "raise"}
    result = parity("--cutile-rs", "-rs", "-k", "numerics or perf", device="cuda", answers=answers)
    result.stdout.fnmatch_lines(["*numerics failed: as told, FAIL*", "*numerics failed: *a fault of the op*"])
    perf = {one["id"]: one for one in summary(parity)["results"] if one["check"] == "perf"}
    assert perf["cutile_rs::perf::alpha[f16-4x8]"]["status"] == "NOT-RUN"
    assert perf["cutile_rs::perf::beta[f32-4x8]"]["status"] == "NOT-RUN"


def test_perf_alone_still_looks_at_the_numbers(parity) -> None:
    result = parity("cutile_rs::perf::alpha[f16-4x8]", device="cuda", answers={"numerics": "FAIL"})
    assert result.ret != 0
    result.assert_outcomes(skipped=1)


@pytest.mark.parametrize(
    ("status", "code", "outcome"),
    [
        ("PASS", 0, {"passed": 1}),
        ("FAIL", 1, {"failed": 1}),
        ("UNFAIR", 1, {"failed": 1}),
        ("NO-DATA", 1, {"failed": 1}),
        ("NOISY", 1, {"failed": 1}),
        ("AMBIGUOUS", 0, {"xfailed": 1}),
        ("NOT-RUN", 1, {"skipped": 1}),
    ],
)
def test_exit_status_of_each_verdict(parity, status: str, code: int, outcome: dict[str, int]) -> None:
    result = parity("cutile_rs::perf::alpha[f16-4x8]", device="cuda", answers={"perf": status})
    result.assert_outcomes(**outcome)
    assert result.ret == code


def test_ratios_are_summed_up_as_a_geometric_mean(parity) -> None:
    result = parity("--cutile-rs", device="cuda", answers={"perf": "PASS"})
    assert result.ret == 0
    result.stdout.fnmatch_lines(["alpha * 1.250 (min 1.250)"])


def test_junit_carries_the_verdict(parity) -> None:
    parity("--cutile-rs", "--junitxml", "junit.xml", "-o", "junit_family=xunit1", answers={"ir:beta[f32-2x8]": "FAIL"})
    root = ElementTree.parse(parity.pytester.path / "junit.xml").getroot()
    cases = {(one.get("classname"), one.get("name")): one for one in root.iter("testcase")}
    case = cases["cutile_rs.ir", "beta[f32-2x8]"]
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert properties["verdict"] == "FAIL"
    assert properties["reason"] == "as told, FAIL"


def test_an_op_without_a_kernel_of_ours_is_counted_apart(parity) -> None:
    parity.monkeypatch.setenv("FAKE_MISSING", "beta")
    structure = {
        f"{check}:beta[{dtype}-{rows}x8]": "real"
        for check in ("ir", "sass")
        for dtype in ("f16", "f32")
        for rows in (2, 4)
    }
    alone = {f"numerics:beta[{dtype}-{rows}x8]": "alone" for dtype in ("f16", "f32") for rows in (2, 4)}
    result = parity(
        "--cutile-rs",
        device="cuda",
        answers={"perf:alpha[f16-4x8]": "PASS", "perf:alpha[f32-4x8]": "PASS", **structure, **alone},
    )
    result.assert_outcomes(passed=18, skipped=10)
    result.stdout.fnmatch_lines(
        [
            "alpha * f16 * 2/2 * 2/2 * 2/2 * 1.250 (min 1.250)",
            "beta * f16 * peer only 2/2 * not run * not run * not run",
            "not run: 4 ir: no Rust kernel yet",
            "beta numerics VERDICT: PASS cuTile Python only: 4 cases",
            "VERDICT: PASS passed: 4 numerics, 4 ir, 4 sass, 2 perf; cuTile Python only: 4 numerics; "
            "not run: 4 ir, 4 sass, 2 perf",
        ]
    )
    written = summary(parity)
    conforms(written, SCHEMA)
    assert written["counts"] == {"PASS": 14, "NOT-RUN": 10}
    assert written["peer_only"] == {"PASS": 4}
    rows = (parity.pytester.path / ".cutile_rs" / "summary.csv").read_text().splitlines()
    assert sum(row.endswith(",cpu,yes") for row in rows) == 4


def test_a_run_of_such_ops_alone_passes_nothing(parity) -> None:
    result = parity("--cutile-rs", "--cutile-rs-checks", "numerics", answers={"numerics": "alone"})
    result.stdout.fnmatch_lines(["VERDICT: NOT-RUN nothing of ours passed; cuTile Python only: 8 numerics"])


def test_an_interrupted_run_leaves_a_valid_report(parity) -> None:
    result = parity("--cutile-rs", "--cutile-rs-checks", "ir", answers={"ir:beta[f32-2x8]": "interrupt"})
    assert result.ret == pytest.ExitCode.INTERRUPTED
    written = summary(parity)
    conforms(written, SCHEMA)
    assert written["complete"] is False
    assert written["counts"] == {"PASS": 4}
    assert written["verdict"] == "VERDICT: NOT-RUN passed: 4 ir; incomplete"


def test_step_summary_csv_and_the_report_hook(parity) -> None:
    conftest = parity.pytester.path / "conftest.py"
    hook = "\ndef pytest_cutile_rs_update_report(config, report):\n    report['mine'] = {'branch': 'x'}\n"
    conftest.write_text(conftest.read_text() + hook)
    target = parity.pytester.path / "step.md"
    target.write_text("before\n")
    parity.monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
    parity("--cutile-rs", answers={"sass:beta[f32-2x8]": "FAIL"})
    text = target.read_text()
    assert text.startswith("before\n## cutile-rs parity\n")
    assert "| op | dtype | variant | numerics | Tile IR | machine code | t_py/t_rs |" in text
    assert "- `cutile_rs::sass::beta[f32-2x8]`: FAIL as told, FAIL" in text
    assert summary(parity)["mine"] == {"branch": "x"}
    rows = (parity.pytester.path / ".cutile_rs" / "summary.csv").read_text().splitlines()
    assert rows[0].startswith("check,op,dtype,case,status,reason,ratio")
    assert len(rows) == 1 + 28


def test_xdist_gathers_every_result_once(parity) -> None:
    pytest.importorskip("xdist")
    parity.pytester.makepyfile("def test_mine(): pass")
    answers = {"numerics:alpha[f16-4x8]": "FAIL", "perf": "PASS"}
    result = parity("--cutile-rs", ".", "-n", "2", device="cuda", answers=answers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=28, failed=1)
    result.stdout.fnmatch_lines(["VERDICT: FAIL failed: 1 numerics"])
    written = summary(parity)
    assert written["complete"] is True
    assert written["counts"] == {"PASS": 27, "FAIL": 1}
    assert len({one["id"] for one in written["results"]}) == 28


def test_xdist_with_an_id(parity) -> None:
    pytest.importorskip("xdist")
    result = parity("cutile_rs::ir::alpha", "-n", "2")
    assert result.ret == 0
    result.assert_outcomes(passed=4)
