# SPDX-License-Identifier: MIT
"""Refused kernels in the stages: diagnosed, or answered by a source that somebody supplies."""

from __future__ import annotations

import json
import shlex
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")
pytest.importorskip("tilegym")

from pipeline_runs import program
from pipeline_runs import run
from pipeline_runs import waits
from pipeline_runs import without_map

from tilegym_rs_backend.port import files
from tilegym_rs_backend.port.external import Command
from tilegym_rs_backend.port.program import ProgramSuite
from tilegym_rs_backend.port.translate import Refused
from tilegym_rs_backend.port.validate import validate

pytestmark = [pytest.mark.cargo, pytest.mark.slow]


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


def test_a_supplied_source_goes_through_the_same_checks(shared_crate, kernels, tmp_path):
    """It does all but the wait: the machine code says no, and it answers nothing."""
    text = shared_crate.supplied["waits"]
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


def test_a_supplied_source_that_is_identical_answers_from_then_on(shared_crate, kernels, tmp_path, monkeypatch):
    suite = program("moments")
    text = shared_crate.supplied["moments"]

    def refusing(launch, **options):
        raise Refused("tile_anything", "for this test", file=__file__, line=1, kernel=launch.name)

    monkeypatch.setattr("tilegym_rs_backend.port.ported.translated", refusing)
    monkeypatch.setattr(kernels, "known", without_map(kernels))
    _, lines = run(tmp_path, suite, on_refused=supply(tmp_path, text))
    assert any(line.startswith("VERDICT: PASS SASS-IDENTICAL moments") for line in lines)
    assert any(line.startswith("VERDICT: PASS host-side moments") for line in lines)
    assert validate(tmp_path / "sm_90" / "moments") == []
    run(tmp_path / "later", suite)  # nobody is asked again
    later = tmp_path / "later" / "sm_90" / "moments"
    [row] = json.loads((later / files.SUMMARY).read_text())["launches"]
    assert (row["verdict"], row["origin"]) == ("SASS-IDENTICAL", "supplied")
    assert validate(later) == []


def test_a_command_that_fails_is_the_diagnosis(kernels, tmp_path):
    command = Command(f"{sys.executable} -c 'import sys; sys.exit(\"no idea\")'")
    run(tmp_path, ProgramSuite(waits, "waits"), on_refused=command)
    [row] = json.loads((tmp_path / "sm_90" / "waits" / files.SUMMARY).read_text())["launches"]
    assert row["verdict"] == "REFUSED"
    assert "ended with status 1: no idea" in row["detail"]
    assert validate(tmp_path / "sm_90" / "waits") == []
