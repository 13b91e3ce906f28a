# SPDX-License-Identifier: MIT
"""The GPU host's scripts, run over the fake device."""

from __future__ import annotations

import dataclasses
import importlib
import json
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_cutile_rs import gate
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.result import CheckResult
from pytest_cutile_rs.suites import suites
from pytest_cutile_rs.timing import Plan
from pytest_cutile_rs.timing import TimingUnavailable
from pytest_cutile_rs.timing.fake import FakeDevice
from pytest_cutile_rs.timing.fake import FakeTimer

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name: str, *arguments: str) -> ModuleType:
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        return importlib.import_module(name)

    return load


def test_smoke_passes_on_a_good_machine_and_writes_its_record(
    script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke = script("cupti_smoke", "--out", str(tmp_path / "out"))
    timer = FakeTimer(FakeDevice(noise=0.01, seed=3))
    monkeypatch.setattr(smoke, "make_timer", lambda kind, prefix, event_gates: timer)
    monkeypatch.setattr(
        smoke, "equal_sides", lambda: {us: lambda us=us: timer.device.launch("k", us) for us in (3.0, 30.0)}
    )
    monkeypatch.setattr(smoke, "copy_side", lambda mib: lambda: timer.device.launch("copy", mib / 2))
    monkeypatch.setattr(smoke, "driver_side", lambda: lambda: timer.device.launch("driver", 50.0))
    assert smoke.main() == 0
    assert "VERDICT: PASS" in capsys.readouterr().out
    saved = json.loads((tmp_path / "out" / "cupti-smoke.json").read_text())
    assert len(saved["records"]) == 5
    assert str(tmp_path) not in json.dumps(saved)


def test_smoke_says_why_there_is_no_data(script: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    smoke = script("cupti_smoke")

    class Closed(FakeTimer):
        def open(self) -> None:
            raise TimingUnavailable("cupti_held", "nsys")

    monkeypatch.setattr(smoke, "make_timer", lambda *a, **k: Closed())
    assert smoke.main() == 1
    assert "NO-DATA cupti_held: nsys" in capsys.readouterr().out


def test_device_time_shards_and_tabulates(script: Any, capsys: pytest.CaptureFixture[str]) -> None:
    subject = script("device_time", "--list", "--ops", "softmax")
    assert subject.main() == 0
    everything = capsys.readouterr().out.splitlines()
    parts: list[str] = []
    for index in (1, 2, 3):
        script("device_time", "--list", "--ops", "softmax", "--shard", f"{index}/3")
        assert subject.main() == 0
        parts += capsys.readouterr().out.splitlines()
    assert sorted(parts) == sorted(everything)

    timer = FakeTimer()
    timer.open()
    launch = timer.device.launch
    sides = {name: lambda us=us: launch("k", us) for name, us in (("py", 30.0), ("rs", 20.0), ("torch", 40.0))}
    record = timer.pair("softmax[x]", sides, Plan(warm_s=0.001))
    case = gate.judge(record)
    data = {
        "us": {side: record.median_us(side) for side in sides},
        "ratio": case.ratio,
        "low": case.low,
        "high": case.high,
        "record": record.to_json(),
    }
    results = [
        CheckResult("perf", "softmax", "x", "PASS", case.text, data),
        CheckResult("perf", "softmax", "y", "NO-DATA", "nothing", {}),
    ]
    cells = subject.row(results[0])
    assert cells[:6] == ("softmax[x]", "30.00", "40.00", "20.00", "1.500 [1.500, 1.500]", "2.00")
    assert len(cells) == len(subject.row(results[1])) == len(subject.HEADER)
    assert "geomean 1.500" in subject.geomeans(results)[0]


@pytest.fixture
def on_gpu(script: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The GPU script over a fake device on which a kernel takes as long as it has rows."""
    gate_on_gpu = script("gate_on_gpu", "--no-peer", "--out", str(tmp_path))
    timer = FakeTimer(FakeDevice(noise=0.005, seed=3))

    class Backend:
        strays = 0

        def prepare(self) -> None: ...

        def device(self) -> Device:
            return Device("cpu", arch="sm_90", timed=True, uuid="GPU-1")

        def facts(self) -> dict[str, Any]:
            return {"tileiras_sha256": "t"}

        def kind(self, op: str) -> str:
            return "native"

        def observe(self, suite: Any, case: Any, call: Any, arch: str) -> dict[str, Any]:
            self.call(suite, call)
            return {"launches": [{"kernel": "softmax_rows", "grid": [1, 1, 1]}], "tuning": []}

        def call(self, suite: Any, call: Any, tuned: bool = True) -> None:
            timer.device.launch("softmax_rows", us=call.args[0].shape[0] / 40)
            for _ in range(self.strays):
                timer.device.launch("", us=1.0, kind="memcpy")

    suite = suites()["softmax"]
    some = [case for case in suite.cases if case.perf and case.shape[0] == 4096][:2]
    small = [(suite, dataclasses.replace(case, shape=(4096, 8))) for case in some]
    monkeypatch.setattr(gate_on_gpu, "equal_cases", lambda: small)
    monkeypatch.setattr(gate_on_gpu, "SLOWED", dataclasses.replace(gate_on_gpu.SLOWED, shape=(32768, 8)))
    monkeypatch.setattr(gate_on_gpu, "make_timer", lambda kind, prefix: timer)
    monkeypatch.setattr(gate_on_gpu, "CutileRsBackend", Backend)
    monkeypatch.setattr(type(suite), "torch", lambda *_: timer.device.launch("softmax_warp_forward", us=30.0))
    return gate_on_gpu, Backend, tmp_path


def test_gate_on_gpu_tells_right_from_wrong(on_gpu: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gate_on_gpu, _, out = on_gpu
    assert gate_on_gpu.main() == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    line = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    assert line["verdict"] == "PASS"
    verdicts = {row[0]: row[2] for row in line["rows"]}
    assert verdicts["slowed by 7 %"] == "FAIL ci_below"
    assert verdicts["slowed by 2 %"] == "PASS ci_above"
    assert verdicts["peer replaced by torch"] == "UNFAIR kernel_mismatch"
    assert sum(verdict == "PASS ci_above" for name, verdict in verdicts.items() if name.startswith("A/A")) == 2
    assert len(json.loads((out / "gate-on-gpu.json").read_text())["results"]) == 5
    assert (out / "gate-on-gpu.md").read_text().rstrip().endswith("VERDICT: PASS")


def test_gate_on_gpu_fails_when_a_trial_does_not_hold(on_gpu: Any, capsys: pytest.CaptureFixture[str]) -> None:
    gate_on_gpu, backend, _ = on_gpu
    backend.strays = 1
    assert gate_on_gpu.main() == 1
    assert "VERDICT: FAIL A/A softmax" in capsys.readouterr().out


def test_host_time_compares_redirected_ops_under_both_backends(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    tilegym = pytest.importorskip("tilegym")
    from tilegym_rs_backend import registration

    registration.register()
    host_time = script("host_time")
    rows, failed = host_time.redirected(["bmm", "softmax", "mla_decoding"], device="cpu")
    assert list(rows) == [f"{op}, {backend}" for op in ("bmm", "mla_decoding") for backend in ("cutile", "cutile_rs")]
    assert failed["softmax"].startswith("it has native kernels")

    def slower_under_cutile(suite: Any, call: Any, backend: str | None = None) -> None:
        time.sleep(4e-3 if tilegym.get_current_backend() == "cutile" else 1e-3)

    for op in ("bmm", "mla_decoding"):
        monkeypatch.setattr(type(suites()[op]), "call", slower_under_cutile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    before = tilegym.get_current_backend()
    try:
        found = host_time.measure(rows, rounds=3, calls=2)
        calls = {name: host_time._counted(call) for name, call in rows.items()}
    finally:
        tilegym.set_backend(before)
    table = host_time.compared(found, calls)
    assert list(table) == ["bmm", "mla_decoding"]
    assert 1.5 < table["bmm"]["ratio"] < 6
    assert table["mla_decoding"]["cutile_us"] > 4000
    assert table["mla_decoding"]["cutile_calls"] >= 2


def test_equal_pairs_are_of_all_ops_and_differ(script: Any) -> None:
    found = [(suite.name, case.id) for suite, case in script("gate_on_gpu").equal_cases()]
    assert len(set(found)) == len(found) == 10
    assert {name for name, _ in found} == {"softmax", "silu_and_mul", "matmul"}


@pytest.mark.parametrize("text", ["0/2", "3/2", "1"])
def test_a_shard_that_does_not_exist_is_refused(script: Any, text: str) -> None:
    with pytest.raises(ValueError):
        script("_common").shard(text)
