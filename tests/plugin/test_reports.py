# SPDX-License-Identifier: MIT
"""Reports of whole runs: saved ones, shards, an interrupted one, and what GitHub Actions and JUnit readers get."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pytest_cutile_rs.report.merge import merge
from pytest_cutile_rs.report.read import ReportError
from pytest_cutile_rs.report.read import load

# A check that never ends, and says that it has begun.
WAITING = """
_answer = pytest_cutile_rs_check

def pytest_cutile_rs_check(config, check, suite, case):
    if f"{check}:{case.op}[{case.id}]" == "ir:beta[f32-4x8]":
        import pathlib, time
        pathlib.Path("waiting").touch()
        time.sleep(120)
    return _answer(config, check, suite, case)
"""
ANSWERS = {"perf": "PASS", "perf:alpha[f16-4x8]": "AMBIGUOUS", "sass:beta[f32-2x8]": "FAIL"}


def content(path: Path) -> dict[str, Any]:
    """A report without what differs between two equal runs."""
    raw = json.loads((path / "summary.json").read_text())
    for name in ("started", "finished", "command", "run"):
        del raw[name]
    for name in ("out", "shard"):
        del raw["options"][name]
    for one in raw["results"]:
        del one["seconds"]
    return raw


def test_three_shards_merge_to_the_unsplit_run(parity) -> None:
    root = parity.pytester.path
    parity("--cutile-rs", "--cutile-rs-out", "whole", device="cuda", answers=ANSWERS)
    for number in (1, 2, 3):
        place = ["--cutile-rs-shard", f"{number}/3", "--cutile-rs-out", f"part{number}"]
        parity("--cutile-rs", *place, device="cuda", answers=ANSWERS)
    sizes = [len(load(root / f"part{number}").results) for number in (1, 2, 3)]
    assert sum(sizes) == 28
    assert all(sizes)
    command = [
        sys.executable,
        "-m",
        "tilegym_rs_backend.cli",
        "report",
        "merge",
        "part3",
        "part1",
        "part2",
        "--to",
        "all",
    ]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "VERDICT: FAIL failed: 1 sass"
    assert content(root / "all") == content(root / "whole")
    with pytest.raises(ReportError, match=r"number of shards: 3 \(report 1\), unsplit \(report 2\)"):
        merge([load(root / "part1"), load(root / "whole")])


def test_a_saved_run_is_kept_and_becomes_history(parity) -> None:
    root = parity.pytester.path
    for _ in range(2):
        parity("--cutile-rs", "--cutile-rs-save", device="cuda", answers=ANSWERS)
    parity("--cutile-rs", device="cuda", answers=ANSWERS)
    saved = sorted((root / ".cutile_rs" / "runs").iterdir())
    assert len(saved) == 2
    ids = [json.loads(path.read_text())["run"]["id"] for path in saved]
    assert sorted(path.stem.partition("-")[2] for path in saved) == sorted(ids)
    page = (root / ".cutile_rs" / "summary.html").read_text()
    assert all(f">{ident}<" in page for ident in ids)
    assert "3 runs, oldest first, of 3 on this machine." in page


def test_ini_saves_too(parity) -> None:
    parity.pytester.makeini("[pytest]\ncutile_rs_save = true")
    parity("--cutile-rs", "--cutile-rs-checks", "ir")
    assert len(list((parity.pytester.path / ".cutile_rs" / "runs").iterdir())) == 1


def test_ctrl_c_leaves_a_valid_report_marked_incomplete(parity) -> None:
    conftest = parity.pytester.path / "conftest.py"
    conftest.write_text(conftest.read_text() + WAITING)
    parity.monkeypatch.setenv("FAKE_DEVICE", "")
    parity.monkeypatch.setenv("FAKE_ANSWERS", "")
    arguments = ["--cutile-rs", "--cutile-rs-ops", "alpha,beta", "--cutile-rs-checks", "ir", "--cutile-rs-save"]
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments], cwd=parity.pytester.path, stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 60
    while not (parity.pytester.path / "waiting").exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert "VERDICT: NOT-RUN passed: 5 ir; incomplete" in output.splitlines()
    report = load(parity.pytester.path / ".cutile_rs")
    assert report.complete is False
    assert (len(report.results), report.selected) == (5, 8)
    assert report.verdict() == "VERDICT: NOT-RUN passed: 5 ir; incomplete"
    page = (parity.pytester.path / ".cutile_rs" / "summary.html").read_text()
    assert "This run is incomplete: 5 of 8 selected checks ended." in page
    assert len(list((parity.pytester.path / ".cutile_rs" / "runs").iterdir())) == 1


def test_on_github_actions_it_annotates_and_writes_the_steps_summary(parity) -> None:
    parity.monkeypatch.setenv("GITHUB_ACTIONS", "true")
    target = parity.pytester.path / "step.md"
    parity.monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(target))
    result = parity("--cutile-rs", device="cuda", answers=ANSWERS)
    result.stdout.fnmatch_lines(
        [
            "::error title=cutile_rs%3A%3Asass%3A%3Abeta[[]f32-2x8[]]::FAIL as told, FAIL",
            "::warning title=cutile_rs%3A%3Aperf%3A%3Aalpha[[]f16-4x8[]]::AMBIGUOUS as told, AMBIGUOUS",
            "VERDICT: FAIL failed: 1 sass",
        ]
    )
    assert target.read_text() == (parity.pytester.path / ".cutile_rs" / "summary.md").read_text()


def test_elsewhere_nothing_is_annotated(parity) -> None:
    parity.monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    parity("--cutile-rs", device="cuda", answers=ANSWERS).stdout.no_fnmatch_line("::error*")


def _without_moments(xml: str) -> str:
    """JUnit XML without what differs between two equal runs; figures to four digits."""
    xml = re.sub(r' (timestamp|hostname|time)="[^"]*"', "", xml)
    xml = re.sub(r'="(\d+\.\d{4,}(?:e-?\d+)?)"', lambda found: f'="{float(found[1]):.4g}"', xml)
    return xml.replace("><", ">\n<") + "\n"


def test_junit_of_a_timed_run_is_the_golden_file(gated, golden) -> None:
    items = [f"cutile_rs::{check}::alpha[f16-4x8]" for check in ("numerics", "ir", "sass", "perf")]
    xunit = ("--junitxml", "junit.xml", "-o", "junit_family=xunit1")
    gated(*items, *xunit, answers={"sass": "FAIL"}, us={"rs": 20, "py": 25})
    golden("junit.xml", _without_moments((gated.path / "junit.xml").read_text()))


def test_junit_carries_the_figures(parity) -> None:
    parity("--cutile-rs", "--junitxml", "junit.xml", "-o", "junit_family=xunit1", device="cuda", answers=ANSWERS)
    root = ElementTree.parse(parity.pytester.path / "junit.xml").getroot()
    case = next(
        one for one in root.iter("testcase") if one.get("name") == "alpha[f32-4x8]" and "perf" in one.get("classname")
    )
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert properties == {
        "verdict": "PASS",
        "reason": "as told, PASS",
        "dtype": "f32",
        "counted": "1.25",
        "ratio": "1.25",
    }
