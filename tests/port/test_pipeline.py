# SPDX-License-Identifier: MIT
"""The stages on programs of our own: what they say, what they leave, what is repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")
pytest.importorskip("tilegym")

from pipeline_runs import FakeGate
from pipeline_runs import case
from pipeline_runs import program
from pipeline_runs import run
from pipeline_runs import timed
from pipeline_runs import waits
from pipeline_runs import without_map

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.port import files
from tilegym_rs_backend.port import pipeline as stages
from tilegym_rs_backend.port.journal import STAGES
from tilegym_rs_backend.port.journal import Verdict
from tilegym_rs_backend.port.ported import PortedKernels
from tilegym_rs_backend.port.preflight import preflight
from tilegym_rs_backend.port.program import ProgramSuite
from tilegym_rs_backend.port.program import load
from tilegym_rs_backend.port.validate import validate

pytestmark = [pytest.mark.cargo, pytest.mark.slow]


def test_every_stage_ends_in_a_verdict(ported):
    folder, summary, lines = ported
    assert lines[0].startswith(
        "VERDICT: PASS preflight sm_90: cuda-tile 1.7.0, tilegym 1.5.1, tileiras 13.4.92, cargo "
    )
    told = [line.split()[2] for line in lines if line.startswith("VERDICT: ")]
    assert told == ["preflight", "analyze", "translate", "SASS-IDENTICAL", "self-check", "host-side", "perf", "port"]
    assert "VERDICT: NOT-RUN perf outer: outer has no perf case" in lines or "no GPU here" in "".join(lines)
    assert any(line.endswith("1 executed launches BIT-EQUAL") for line in lines)
    assert (summary["launches"], summary["identical"], summary["failed"]) == (1, 1, {})
    assert all((folder / name).is_file() for name in files.FIXED)
    assert validate(folder) == []


def test_a_second_run_repeats_nothing(ported, monkeypatch):
    folder, _, _ = ported
    monkeypatch.setattr(stages.selfcheck, "judge", lambda *_: pytest.fail("judged again"))
    monkeypatch.setattr("tilegym_rs_backend.port.work.analyze", lambda *_: pytest.fail("analyzed again"))
    summary, lines = run(folder.parents[1], program("outer"))
    assert [line.split()[2] for line in lines if line.endswith("(kept)")] == list(STAGES[1:])
    assert summary["identical"] == 1
    assert validate(folder) == []


def test_a_stage_whose_file_is_gone_is_repeated_alone(ported):
    folder, _, _ = ported
    [cubin] = folder.glob("cubins/*.ours.cubin")
    cubin.unlink()
    _, lines = run(folder.parents[1], program("outer"))
    assert [line.split()[2] for line in lines if line.endswith("(kept)")] == [
        "analyze",
        "translate",
        "host-side",
        "perf",
    ]
    assert validate(folder) == []


@pytest.mark.parametrize("stage", ["analyze", "translate", "self-check", "host-side"])
def test_a_killed_run_goes_on(kernels, tmp_path, stage):
    def kill(line):
        if f" {stage} collatz" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, program("collatz"), say=kill)
    _, lines = run(tmp_path, program("collatz"))
    kept = [line.split()[2] for line in lines if line.endswith("(kept)")]
    assert kept == list(STAGES[1 : STAGES.index(stage) + 1])
    assert validate(tmp_path / "sm_90" / "collatz") == []


def test_the_analysis_says_what_there_is(ported):
    folder, _, _ = ported
    analysis = json.loads((folder / files.ANALYSIS).read_text())
    [launch] = analysis["launches"]
    assert (launch["kernel"], launch["grid"]) == ("outer", [2, 2, 2])
    assert launch["constants"] == {"ROWS": 16, "COLUMNS": 32}
    assert launch["arguments"]["a"] == "float16[2x20] strides (20, 1)"
    [kernel] = analysis["kernels"]
    assert kernel["constants"] == {"ROWS": [16], "COLUMNS": [32]}
    [variant] = analysis["variants"]
    assert variant["baseline"]["peer"] == "cutile-python"
    assert variant["baseline"]["not_compared"]["triton-tileir"].startswith("not compared")


def test_two_attempts_and_no_more(kernels, tmp_path, monkeypatch):
    """The plain front end first; the parity passes where it does not do; then the diagnosis."""
    built = []
    real = PortedKernels.prepare

    def prepare(self, launches, beat, **options):
        built.append((len(launches), options))
        return real(self, launches, beat, **options)

    monkeypatch.setattr(PortedKernels, "prepare", prepare)
    monkeypatch.setattr(kernels, "known", without_map(kernels))
    different = stages.selfcheck.compare_launch

    def never_plain(kernels, launch, supplied):
        found = different(kernels, launch, supplied)
        return (
            found
            if not kernels.entry(launch).plain
            else type(found)("NOT-COMPILED", "for this test", entry=found.entry)
        )

    monkeypatch.setattr(stages.selfcheck, "compare_launch", never_plain)
    run(tmp_path, program("outer"))
    # The third finds nothing new: the host side asks for what a case launches besides.
    assert built == [(1, {"plain": True}), (1, {"again": True}), (1, {})]
    [row] = json.loads((tmp_path / "sm_90" / "outer" / files.SUMMARY).read_text())["launches"]
    assert row["attempts"] == [
        {"front_end": "plain", "verdict": "NOT-COMPILED"},
        {"front_end": "parity passes", "verdict": "SASS-IDENTICAL"},
    ]
    assert "drop_bounds" in row["passes"]


def test_the_gate_is_asked_where_there_is_a_gpu(kernels, tmp_path):
    gate = FakeGate(case("call", "PASS", "1.00"))
    _, lines = run(tmp_path, timed("outer"), gate=gate)
    assert "VERDICT: PASS perf outer: 1 cases" in lines
    assert gate.asked == 1
    run(tmp_path, timed("outer"), gate=gate)
    assert gate.asked == 1
    assert validate(tmp_path / "sm_90" / "outer") == []


def test_a_slow_case_has_a_residual_report(kernels, tmp_path):
    gate = FakeGate(case("call", "FAIL", "0.90", ratio=0.9))
    _, lines = run(tmp_path, timed("outer"), gate=gate)
    assert any(line.startswith("VERDICT: FAIL perf outer: 1 of 1 cases, such as call: 0.90") for line in lines)
    folder = tmp_path / "sm_90" / "outer"
    [one] = json.loads((folder / files.RESIDUAL).read_text())["reports"]
    assert (one["what"], one["where"]) == ("call", "host")
    assert validate(folder) == []


def test_nothing_is_timed_that_is_not_identical(kernels, tmp_path):
    gate = FakeGate(case("call", "PASS", "1.00"))
    _, lines = run(tmp_path, ProgramSuite(waits, "waits"), gate=gate)
    assert gate.asked == 0
    assert "VERDICT: NOT-RUN perf waits: self-check did not pass, so there is nothing to time" in lines


def test_what_is_missing_stops_everything_and_is_named(kernels, tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "preflight", lambda arch: Verdict("preflight", "FAIL", "cargo: not there"))
    summary, lines = run(tmp_path, program("outer"))
    assert lines[0] == "VERDICT: FAIL preflight sm_90: cargo: not there"
    assert summary["launches"] == 0
    assert not (tmp_path / "sm_90").exists()


def test_preflight_names_all_that_is_wrong(monkeypatch):
    from tilegym_rs_backend.port import preflight as module

    def missing():
        raise TilegymRsError("nowhere")

    monkeypatch.setitem(module._QUESTIONS, "cargo", missing)
    monkeypatch.setattr(module.packages, "installed", lambda name: "9.9")
    found = preflight("sm_1")
    assert found.status == "FAIL"
    for part in ("cargo: nowhere", "tilegym: 9.9 is installed", "arch: sm_1 is not known"):
        assert part in found.reason


def test_a_program_is_named_by_file_and_function(tmp_path, capsys):
    path = tmp_path / "my_kernels.py"
    path.write_text("def go(device):\n    return device\n")
    suite = load(f"{path}:go")
    assert (suite.name, suite.sources) == ("go", (path,))
    assert suite.call(suite.inputs(suite.cases[0], "meta", 0)) == "meta"
    for wrong in (f"{path}:stop", f"{tmp_path}/other.py:go"):
        with pytest.raises(TilegymRsError):
            load(wrong)


def test_the_verb(kernels, tmp_path, capsys):
    from tilegym_rs_backend.cli import main

    path = Path(__file__).parent / "own" / "own_ported.py"
    source = tmp_path / "program.py"
    source.write_text(
        f"import sys\nsys.path.insert(0, {str(path.parent)!r})\nimport cuda.tile as ct\nimport torch\n"
        "from own_ported import run_histogram\n\n\ndef count(device):\n"
        "    run_histogram(lambda g, k, a: ct.launch(torch.cuda.current_stream(), g, k, a), device)\n"
    )
    out = tmp_path / "out"
    assert main(["port", f"{source}:count", "--out", str(out)]) == 0
    assert "VERDICT: PASS port count: 1 of 1 launches SASS-IDENTICAL" in capsys.readouterr().out
    assert main(["port", "validate", str(out / "sm_90" / "count")]) == 0
    (out / "sm_90" / "count" / files.HOST).write_text("FAIL\n")
    assert main(["port", "validate", str(out / "sm_90" / "count")]) == 1
    assert "host.log is not what stage host-side wrote" in capsys.readouterr().out


def test_an_op_that_launches_nothing_fails_and_leaves_all_files(kernels, tmp_path):
    summary, lines = run(tmp_path, ProgramSuite(lambda device: None, "idle"), program("outer"))
    assert "VERDICT: FAIL analyze idle: NO-LAUNCH no case with a shape that launches" in lines
    assert "VERDICT: NOT-RUN perf idle: self-check did not pass, so there is nothing to time" in lines
    assert validate(tmp_path / "sm_90" / "idle") == []
    assert list(summary["failed"]) == ["idle"]
    assert summary["identical"] == 1
