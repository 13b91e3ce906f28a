# SPDX-License-Identifier: MIT
"""The stages on programs of our own: what they say, what they leave, what is repeated, what validation finds."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ct = pytest.importorskip("cuda.tile")
pytest.importorskip("tilegym")

import port_kernels  # noqa: E402
import refused_kernels  # noqa: E402
from own_ported import PROGRAMS  # noqa: E402

from tilegym_rs_backend.errors import TilegymRsError  # noqa: E402
from tilegym_rs_backend.port import files  # noqa: E402
from tilegym_rs_backend.port import pipeline as stages  # noqa: E402
from tilegym_rs_backend.port.cached import CachedCrate  # noqa: E402
from tilegym_rs_backend.port.entries import translated  # noqa: E402
from tilegym_rs_backend.port.external import Command  # noqa: E402
from tilegym_rs_backend.port.journal import STAGES  # noqa: E402
from tilegym_rs_backend.port.journal import Verdict  # noqa: E402
from tilegym_rs_backend.port.launches import case_launches  # noqa: E402
from tilegym_rs_backend.port.performance import judged  # noqa: E402
from tilegym_rs_backend.port.pipeline import Pipeline  # noqa: E402
from tilegym_rs_backend.port.ported import PortedKernels  # noqa: E402
from tilegym_rs_backend.port.preflight import preflight  # noqa: E402
from tilegym_rs_backend.port.program import ProgramSuite  # noqa: E402
from tilegym_rs_backend.port.program import load  # noqa: E402
from tilegym_rs_backend.port.translate import Refused  # noqa: E402
from tilegym_rs_backend.port.validate import validate  # noqa: E402

pytestmark = [pytest.mark.cargo, pytest.mark.slow]

if preflight("sm_90").status != "PASS":
    pytest.skip(preflight("sm_90").reason, allow_module_level=True)


def asked(grid, kernel, args):
    ct.launch(torch.cuda.current_stream(), grid, kernel, args)


def program(name):
    return ProgramSuite(lambda device: PROGRAMS[name](asked, device), name)


def waits(device):
    asked((4,), refused_kernels.waits, (torch.zeros(1024, device=device), 256))


@pytest.fixture
def kernels(shared_crate, monkeypatch):
    """The shared crate's entries answer, those of another run's map do not."""
    found = PortedKernels(CachedCrate(shared_crate.kernels.crate.folder))
    monkeypatch.setattr(stages, "redirect", lambda: type("R", (), {"kernels": found}))
    from tilegym_rs_backend.port import hostside
    from tilegym_rs_backend.port import program as programs

    monkeypatch.setattr(hostside, "redirect", stages.redirect)
    monkeypatch.setattr(programs, "redirect", stages.redirect)
    return found


class FakeGate:
    """A GPU that gives what it is told to."""

    def __init__(self, *cases):
        self.cases, self.asked = list(cases), 0

    def where(self, arch):
        return "a fake"

    def why(self, arch):
        return ""

    def measure(self, op, arch, folder):
        self.asked += 1
        return judged(self.cases)


def run(out, *suites, say=None, **options):
    lines = []

    def both(line):
        lines.append(line)
        if say is not None:
            say(line)

    summary = Pipeline("sm_90", out, **options).run({suite.name: suite for suite in suites}, both)
    return summary, lines


@pytest.fixture
def ported(kernels, tmp_path):
    summary, lines = run(tmp_path, program("outer"))
    return tmp_path / "sm_90" / "outer", summary, lines


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


def damage(folder, name, change):
    path = next(iter(sorted(folder.glob(name))))
    path.write_bytes(change(path.read_bytes()))


def rehash(folder, name):
    """Let the state agree with a changed file, as somebody would who hides it."""
    state = json.loads((folder / files.STATE).read_text())
    for stage in state["stages"].values():
        if name in stage["files"]:
            stage["files"][name] = files.sha256(folder, name)
    (folder / files.STATE).write_text(json.dumps(state))


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        (
            "analysis.json",
            lambda text: text.replace(b'"rtol"', b'"rtal"').replace(b'"op": "outer"', b'"op": "inner"'),
            "op is not what",
        ),
        ("summary.json", lambda text: text.replace(b"SASS-IDENTICAL", b"SASS-DIFFERENT"), "is not what state.json"),
        ("sources/*.rs", lambda text: text.replace(b" * ", b" + "), "is not the one that its name stands for"),
        (
            "cubins/*.ours.cubin",
            lambda text: text.replace(b"\x00\x00\x00\x00\x00\x00\x00\x00", b"\x01" * 8),
            "ours.cubin",
        ),
        ("ir/*.ours.txt", lambda text: text.replace(b"mulf", b"addf"), "is not the text of"),
        ("ir/*.theirs.tileirbc", lambda text: text[:-40], "cannot be read"),
        (
            "correctness.log",
            lambda text: text.replace(b"] PASS BIT-EQUAL", b"] FAIL 3 of 4 bytes"),
            "its files say FAIL",
        ),
        ("host.log", lambda text: b"FAIL " + text, "host.log says otherwise"),
        ("performance.log", lambda text: b"VERDICT: PASS 9 cases\n", "does not end in"),
        ("differences.txt", lambda text: b"something\n", "is not the text of differences.json"),
        ("residual.txt", lambda text: b"something\n", "is not the text of residual.json"),
    ],
)
def test_validation_finds_what_was_changed(ported, name, change, problem):
    folder, _, _ = ported
    damage(folder, name, change)
    [path] = [path for path in sorted(folder.glob(name))][:1]
    relative = str(path.relative_to(folder))
    if name != files.SUMMARY:
        assert any(f"{relative} is not what stage" in line for line in validate(folder))
    rehash(folder, relative)
    found = validate(folder)
    assert any(problem in line for line in found), found


@pytest.mark.parametrize("name", files.FIXED)
def test_a_file_that_is_missing_is_named(ported, name):
    folder, _, _ = ported
    (folder / name).unlink()
    assert validate(folder) == [f"{name} is missing"]


def test_a_state_that_skips_a_stage_is_found(ported):
    folder, _, _ = ported
    state = json.loads((folder / files.STATE).read_text())
    del state["stages"]["host-side"]
    (folder / files.STATE).write_text(json.dumps(state))
    assert any("the stages are" in line for line in validate(folder))


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


def test_a_refused_kernel_is_diagnosed_and_the_others_go_on(kernels, tmp_path):
    summary, lines = run(tmp_path, ProgramSuite(waits, "waits"), program("moments"))
    assert any(line.startswith("VERDICT: FAIL REFUSED waits waits[call] ") for line in lines)
    assert any(
        line.startswith("VERDICT: FAIL self-check waits: 0 of 1 launches identical; waits REFUSED, kernel fault")
        for line in lines
    )
    assert any(line.startswith("VERDICT: PASS port moments: 1 of 1") for line in lines)
    assert list(summary["failed"]) == ["waits"]
    folder = tmp_path / "sm_90" / "waits"
    assert validate(folder) == []
    [row] = json.loads((folder / files.DIFFERENCES).read_text())["launches"]
    assert "refused_kernels.py:" in row["detail"]


def supply(folder, text):
    """A command that supplies a text."""
    source = folder / "supplied.rs"
    source.write_text(text)
    return Command(f"cp {shlex.quote(str(source))} kernel.rs")


def test_a_supplied_source_goes_through_the_same_checks(kernels, tmp_path):
    """It does all but the wait: the machine code says no, and it answers nothing."""
    _, text = translated(port_kernels.launch(port_kernels.select, port_kernels.meta(1024), 256))
    text = re.sub(r"\bout\b", "x", text)
    summary, lines = run(tmp_path, ProgramSuite(waits, "waits"), on_refused=supply(tmp_path, text))
    folder = tmp_path / "sm_90" / "waits"
    assert any(line.startswith("VERDICT: PASS translate waits: 1 launches, 1 texts, 1 supplied") for line in lines)
    assert any(line.startswith("VERDICT: FAIL SASS-DIFFERENT waits") for line in lines)
    [row] = json.loads((folder / files.SUMMARY).read_text())["launches"]
    assert (row["origin"], row["attempts"]) == ("supplied", [{"front_end": "supplied", "verdict": "SASS-DIFFERENT"}])
    assert kernels.known(row["key"]) is None
    [report] = json.loads((folder / files.DIFFERENCES).read_text())["launches"]
    assert report["fault"] == "kernel"
    assert any(each["theirs"].startswith("gdc_wait") for each in report["differences"])
    assert [one["where"] for one in json.loads((folder / files.RESIDUAL).read_text())["reports"]] == ["device"]
    assert validate(folder) == []
    assert summary["identical"] == 0


def test_a_supplied_source_that_is_identical_answers_from_then_on(kernels, tmp_path, monkeypatch):
    suite = program("moments")
    [launch] = case_launches(suite, suite.cases[0], "sm_90")
    _, text = translated(launch)

    def refusing(launch, **options):
        raise Refused("tile_anything", "for this test", file=__file__, line=1, kernel=launch.name)

    monkeypatch.setattr("tilegym_rs_backend.port.ported.translated", refusing)
    monkeypatch.setattr(kernels, "known", without_map(kernels))
    _, lines = run(tmp_path, suite, on_refused=supply(tmp_path, text))
    assert any(line.startswith("VERDICT: PASS SASS-IDENTICAL moments") for line in lines)
    assert any(line.startswith("VERDICT: PASS host-side moments") for line in lines)
    assert validate(tmp_path / "sm_90" / "moments") == []


def without_map(kernels):
    """`known`, of what this process has entered alone."""
    return lambda key: kernels._entries.get(key)


def test_a_command_that_fails_is_the_diagnosis(kernels, tmp_path):
    command = Command(f"{sys.executable} -c 'import sys; sys.exit(\"no idea\")'")
    run(tmp_path, ProgramSuite(waits, "waits"), on_refused=command)
    [row] = json.loads((tmp_path / "sm_90" / "waits" / files.SUMMARY).read_text())["launches"]
    assert row["verdict"] == "REFUSED"
    assert "ended with status 1: no idea" in row["detail"]
    assert validate(tmp_path / "sm_90" / "waits") == []


def test_two_attempts_and_no_more(kernels, tmp_path, monkeypatch):
    """The plain front end first; the parity passes where it does not do; then the diagnosis."""
    built = []
    real = PortedKernels.prepare

    def prepare(self, launches, **options):
        launches = list(launches)
        built.append((len(launches), options))
        return real(self, launches, **options)

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
    assert built == [(1, {"plain": True}), (1, {"again": True})]
    [row] = json.loads((tmp_path / "sm_90" / "outer" / files.SUMMARY).read_text())["launches"]
    assert row["attempts"] == [
        {"front_end": "plain", "verdict": "NOT-COMPILED"},
        {"front_end": "parity passes", "verdict": "SASS-IDENTICAL"},
    ]
    assert "drop_bounds" in row["passes"]


def case(name, status, reason, **data):
    return {"case": name, "status": status, "reason": reason, "verdict": f"VERDICT: {status} {reason}", "data": data}


def timed(name):
    suite = program(name)
    suite.cases = (type(suite.cases[0])(name, perf=True),)
    return suite


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
    monkeypatch.setattr(module.importlib.metadata, "version", lambda name: "9.9")
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
