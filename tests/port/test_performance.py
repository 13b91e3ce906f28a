# SPDX-License-Identifier: MIT
"""The perf stage: where the gate measures, what becomes of its results, and the report on what is left."""

from __future__ import annotations

import json
import subprocess
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from tilegym_rs_backend.port import performance
from tilegym_rs_backend.port import residual
from tilegym_rs_backend.port.performance import ParityGate
from tilegym_rs_backend.port.performance import judged


def case(name, status, reason="why", **data):
    return {"case": name, "status": status, "reason": reason, "verdict": f"VERDICT: {status} {reason}", "data": data}


def test_without_a_gpu_the_gate_says_so(monkeypatch):
    monkeypatch.setattr(performance, "_gpu", lambda: ("", ""))
    assert ParityGate().where("sm_90") == ""
    assert "no GPU here" in ParityGate().why("sm_90")


def test_a_gpu_of_another_architecture_measures_nothing(monkeypatch):
    monkeypatch.setattr(performance, "_gpu", lambda: ("sm_100", "B200"))
    assert ParityGate().where("sm_90") == ""
    assert ParityGate().why("sm_90") == "the GPU here, B200, is sm_100; device time for sm_90 needs an sm_90"
    assert ParityGate().where("sm_100") == "B200"


@pytest.mark.parametrize(
    ("cases", "status", "reason"),
    [
        ([case("a", "PASS"), case("b", "WAIVED"), case("c", "NOT-RUN")], "PASS", "2 cases"),
        ([case("a", "PASS"), case("b", "AMBIGUOUS", "0.93 to 0.97")], "FAIL", "1 of 2 cases, such as b: 0.93 to 0.97"),
        ([case("a", "NOT-RUN", "no clock")], "NOT-RUN", "no clock"),
        ([], "NOT-RUN", "the op has no perf case"),
    ],
)
def test_the_gates_results_are_summed_up(cases, status, reason):
    found = judged(cases)
    assert (found.status, found.reason) == (status, reason)
    assert found.log().splitlines()[-1] == f"VERDICT: {status} {reason}"
    assert len(found.log().splitlines()) == len(cases) + 1


def test_the_gate_is_pytest_with_the_ported_variant(monkeypatch, tmp_path):
    seen = []

    def run(command, **options):
        seen.append(command)
        folder = tmp_path / "gate" / "relu"
        folder.mkdir(parents=True)
        (folder / "perf.json").write_text(json.dumps({"cases": [case("a", "PASS")]}))
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    assert ParityGate().measure("relu", "sm_90", tmp_path).status == "PASS"
    words = " ".join(seen[0])
    assert "--cutile-rs-ops relu --cutile-rs-variant ported --cutile-rs-checks numerics,perf" in words


def test_a_gate_that_leaves_no_result_fails_with_what_it_said(monkeypatch, tmp_path):
    monkeypatch.setattr(
        subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=4, stdout="", stderr="unknown op")
    )
    found = ParityGate().measure("relu", "sm_90", tmp_path)
    assert (found.status, found.reason) == ("FAIL", "the gate ended with status 4 and no result: unknown op")


def side(grid, **constants):
    return {"launches": [{"kernel": "k", "grid": grid, "hints": {}, "constants": constants}]}


def test_a_slow_case_of_identical_code_is_the_hosts():
    slow = case("f16-8x8", "FAIL", "0.90 (0.89 to 0.91)", ratio=0.9, host_us={"rs": 30.0, "py": 20.0})
    slow["data"]["choices"] = {"rs": side([4, 1, 1], BLOCK=64), "py": side([8, 1, 1], BLOCK=32)}
    found = residual.of_case(slow, identical=True)
    assert found["where"] == "host"
    assert found["host"]["launch"] == ["launch 0: grid ours [4, 1, 1], theirs [8, 1, 1]"]
    assert found["host"]["tuning"] == ["launch 0: constants ours {'BLOCK': 64}, theirs {'BLOCK': 32}"]
    assert found["host"]["wrapper"] == ["host time of a call: rs 30.0 us", "host time of a call: py 20.0 us"]
    assert "what is left is the host's" in residual.text_of(found)


def test_a_slow_case_of_other_code_is_the_devices():
    found = residual.of_case(case("f16-8x8", "FAIL", ratio=0.9), identical=False)
    assert found["where"] == "device"
