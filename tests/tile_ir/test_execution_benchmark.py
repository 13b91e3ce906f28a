# SPDX-License-Identifier: MIT
"""The benchmark's verdict, and one round of its smallest kernel."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("execution")


@pytest.mark.parametrize(
    ("wall", "cpu", "unchecked", "missed"),
    [(0.29, 0.29, 0.2, False), (0.31, 0.2, 0.2, True), (0.29, 0.29, 0.09, True), (0.0, 0.0, 0.0, True)],
)
def test_verdict(benchmark, wall: float, cpu: float, unchecked: float, missed: bool) -> None:
    assert benchmark.verdict("matmul", wall, cpu, unchecked, unchecked)["missed"] is missed


def test_it_prints_one_json_line(benchmark, monkeypatch, capsys) -> None:
    monkeypatch.setattr(benchmark, "prepared", lambda name: lambda options: None)
    monkeypatch.setattr("sys.argv", ["execution.py", "--rounds", "1", "--only", "fmha"])
    code = benchmark.main()
    [line] = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert list(found["kernels"]) == ["fmha"]
    assert code == (1 if found["missed"] else 0)
    assert found["kernels"]["fmha"]["limit_s"] == 0.5
