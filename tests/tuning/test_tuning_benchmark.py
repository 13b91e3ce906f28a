# SPDX-License-Identifier: MIT
"""`benchmarks/tuning.py`, whose GPU host is played by kernels executed on the CPU and a clock that counts."""

from __future__ import annotations

import functools
import importlib
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tuning import here
from tilegym_rs_backend.tuning import job
from tilegym_rs_backend.tuning.choices import Choices

pytestmark = pytest.mark.cargo
FOLDER = Path(__file__).parents[2] / "benchmarks"


class Watch:
    """Candidates get slower from call to call of a round, but the fifth is the fastest."""

    def __init__(self):
        self.calls = 0

    def run(self, call):
        call()

    def sample(self, call, before=None):
        self.calls += 1
        return 7.0 if self.calls % 7 == 5 else 12.0 + self.calls % 7

    def floor(self):
        return 2.0


@pytest.fixture
def benchmark(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", ["tuning"])
    script = importlib.import_module("tuning")
    folder = tmp_path / "tune"
    monkeypatch.setattr(here, "choices", lambda: Choices(folder))
    return script


def run(script, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["tuning", *words])
    return script.main()


def test_prepare_prints_offline_commands_for_every_problem(benchmark, monkeypatch, capsys):
    assert run(benchmark, monkeypatch, "prepare") == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(re.match(r"tilegym-rs tune \w+ --offline --arch sm_90 --dtypes \w+ --shapes ", line) for line in lines)
    shapes = [shape for line in lines for shape in line.split()[-1].split(",")]
    problems = benchmark.problems()
    assert [shape for *_, shape in problems] == shapes
    assert len(set(problems)) == len(problems) >= 20
    held = {each[1:] for each in problems if each[0]}
    fitted = {each[1:] for each in problems if not each[0]}
    assert len(held) >= len(fitted)  # half of them were never used while the model was written
    assert not held & fitted


def test_ranking_says_where_the_fastest_was(benchmark, monkeypatch, tmp_path, capsys):
    target = executing_target("sm_90")
    monkeypatch.setattr(benchmark, "FITTED", (("matmul", "f16", "64x48x40"),))
    monkeypatch.setattr(benchmark, "HELD_OUT", (("matmul", "f16", "64x64x32 64x64x16"),))
    monkeypatch.setattr(benchmark, "cublas", lambda *_: 22.0)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr("tilegym_rs_backend.target.target_of_device", lambda index: target)
    monkeypatch.setattr(job, "LaunchJob", functools.partial(job.LaunchJob, target=target, stopwatch=Watch()))
    monkeypatch.setattr("tilegym_rs_backend.tuning.search.COMPILED", 6)
    assert run(benchmark, monkeypatch, "ranking", "--match", "x(40|32)$", "--samples", "3", "--out", str(tmp_path)) == 0
    data = json.loads((tmp_path / "tuning-ranking.json").read_text())
    first, second = data["results"]
    assert (first["name"], first["held_out"], second["held_out"]) == ("matmul f16 64x48x40", False, True)
    assert first["best_us"] == 5.0
    ranked = [each["us"] for each in first["candidates"]]
    assert first["rank"] == ranked.index(5.0) + 1
    assert first["first_three"] == min(ranked[:3]) / 5.0
    assert first["cublas"] == 4.0
    assert first["floor_us"] == 2.0
    assert set(first["seconds"]) == {"plan", "prepare", "sample"}
    assert all(each["predicted_us"] > 0 and each["resources"]["threads"] for each in first["candidates"])
    text = (tmp_path / "tuning-ranking.md").read_text()
    assert "| matmul f16 64x64x32 * |" in text
    good = sum(each["first_three"] <= 1.03 for each in (first, second))
    assert f"- all: first 3 within 3% of the best in {good} of 2 = {good / 2:.0%}" in text


def test_choices_are_forgotten_and_plans_stay(benchmark, tmp_path):
    for name, gpu in (("a", "NVIDIA H200"), ("b", "")):
        (tmp_path / "matmul").mkdir(exist_ok=True)
        (tmp_path / "matmul" / f"{name}.json").write_text(json.dumps({"key": {"gpu": gpu}}))
    benchmark.forget_choices(tmp_path)
    assert [path.name for path in tmp_path.glob("matmul/*")] == ["b.json"]


def test_a_child_that_fails_is_reported(benchmark, monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "CHILD", "raise SystemExit('no device')")
    found = benchmark.child(tmp_path)
    assert found["error"] == ["no device"]
    monkeypatch.setattr(benchmark, "CHILD", 'print(\'{"first_call_s": 1.5, "choice": null}\')')
    assert benchmark.child(tmp_path)["first_call_s"] == 1.5
