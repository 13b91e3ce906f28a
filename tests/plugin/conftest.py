# SPDX-License-Identifier: MIT
"""A parity run without torch, cargo or a GPU: a fake suite, fake sides, and checks that answer what the test says."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

FAKE = """
import os, sys
from types import SimpleNamespace
from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import Call, Case, OpSuite, Tolerance
from pytest_cutile_rs.result import CheckResult

class Fake(OpSuite):
    tolerance = {name: Tolerance(0.0, 0.0, "exact") for name in ("f32", "f16", "bf16")}
    nan_policy = rounding_policy = "none"

    def __init__(self, name):
        self.name = name
        self.cases = tuple(
            Case(name, f"{dtype}-{rows}x8", dtype, (rows, 8), perf=rows == 4, quick=rows == 2)
            for dtype in ("f32", "f16") for rows in (2, 4)
        )

    def inputs(self, case, device, seed): return Call(())
    def reference(self, case, call): return None
    def torch(self, case, call): return None
    def bytes_moved(self, case): return 64
    def flops(self, case): return 64

class Backend:
    def prepare(self): pass
    def ready(self, pairs, arch, say):
        if os.environ.get("FAKE_READY"):
            say(f"{os.environ['FAKE_READY']} {len(list(pairs))}")
    def kind(self, op): return "" if op in os.environ.get("FAKE_MISSING", "").split(",") else "native"
    def device(self): return Device(DEVICE, reason="no CUDA device: this is a test", timed=bool(DEVICE))
    def facts(self): return {}

class Peer:
    name = "fake"
    def available(self): return None
    def launches(self, suite, case, arch): return ()
    def execute(self, suite, case, arch, seed): raise AssertionError("nothing is executed here")
    def facts(self): return {}
    def close(self): pass

DEVICE = os.environ.get("FAKE_DEVICE", "")
ANSWERS = dict(entry.split("=") for entry in os.environ.get("FAKE_ANSWERS", "").split(";") if entry)

def pytest_cutile_rs_suites(config): return [Fake("alpha"), Fake("beta")]
def pytest_cutile_rs_backend(config): return Backend()
def pytest_cutile_rs_peer(config): return Peer()

def pytest_cutile_rs_check(config, check, suite, case):
    answer = ANSWERS.get(f"{check}:{case.op}[{case.id}]", ANSWERS.get(check))
    if answer == "raise":
        raise RuntimeError("a fault of the op")
    if answer == "interrupt":
        raise KeyboardInterrupt
    if answer == "alone":
        data = {"peer_only": True}
        return CheckResult(check, case.op, case.id, "PASS", "cuTile Python only: right", data, "", case.dtype)
    if answer == "real":
        return None
    if answer is None:
        if check == "perf":
            return None
        answer = "NOT-RUN" if check == "numerics" and not DEVICE else "PASS"
    data = {"counted": 1.25, "ratio": 1.25} if check == "perf" and answer != "NOT-RUN" else {}
    reason = "no CUDA device: this is a test" if answer == "NOT-RUN" else f"as told, {answer}"
    return CheckResult(check, case.op, case.id, answer, reason, data, "the long message", case.dtype)
"""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control gives that to what it runs in the background, and children would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Appended to FAKE: the perf check itself runs, on a fake device whose kernels take the time that FAKE_GATE says.
GATE = """
import json
from pytest_cutile_rs.timing import TimingUnavailable
from pytest_cutile_rs.timing.fake import FakeDevice, FakeTimer

GATE = json.loads(os.environ.get("FAKE_GATE", "{}"))
GPU = FakeDevice(noise=GATE.get("noise", 0.005), seed=1, drop_rate=GATE.get("drop_rate", 0.0))
KERNELS = {"rs": ["rs_kernel"], "py": ["py_kernel"]} | GATE.get("kernels", {})

def work(side, case):
    if GATE.get("raises") == side:
        raise RuntimeError("the op broke")
    us = GATE.get("cases", {}).get(case.id, GATE.get("us", {})).get(side, 20.0)
    for name in KERNELS[side]:
        GPU.launch("" if name in ("memcpy", "memset") else name, us, "kernel" if "_" in name else name)

class GateBackend(Backend):
    def call(self, suite, call, tuned=True): work("rs", call.args[0])
    def observe(self, suite, case, call, arch):
        self.call(suite, call)
        launches = [{"kernel": name, "grid": [1, 1, 1]} for name in GATE.get("expected", ["rs_kernel"])]
        return {"launches": launches, "tuning": []}
    def facts(self): return {"library_build_id": "b1", "tileiras_sha256": GATE.get("tileiras", {}).get("rs", "t1")}
    def device(self):
        return Device("fake", timed=True, name="Fake GPU", uuid="GPU-" + os.environ.get("CUDA_VISIBLE_DEVICES", "0"))

class GatePeer(Peer):
    def available(self): return GATE.get("no_peer")
    def call(self, suite, call, tuned=True): work("py", call.args[0])
    def observe(self, suite, call, arch):
        self.call(suite, call)
        launches = [{"kernel": "py_kernel", "grid": [1, 1, 1]}]
        return {"launches": launches, "tuning": [], "tileiras": GATE.get("tileiras", {}).get("py", "t1")}

class GateTimer(FakeTimer):
    def open(self):
        if GATE.get("no_clock"):
            raise TimingUnavailable("cupti_held", "nsys holds CUPTI")
        super().open()

Fake.inputs = lambda self, case, device, seed: Call((case,))
Fake.torch = lambda self, case, call: GPU.launch("torch_kernel", 30.0)

def pytest_cutile_rs_backend(config): return GateBackend()
def pytest_cutile_rs_peer(config): return GatePeer()
def pytest_cutile_rs_timer(config): return GateTimer(GPU)
"""


# Appended to GATE: the clock is the one that --cutile-rs-timer names, over events of the fake device.
CLOCK = """
del pytest_cutile_rs_timer
import torch
from pytest_cutile_rs.timing import event
from pytest_cutile_rs.timing.fake import FakeCollector

class Event:
    def __init__(self, enable_timing): assert enable_timing
    def record(self): self.seconds = GPU.seconds
    def elapsed_time(self, end): return (end.seconds - self.seconds) * 1e3

torch.cuda.Event = Event
event.TorchDevice = lambda: FakeCollector(GPU)
"""


@pytest.fixture
def gated(parity: Parity, tmp_path_factory: pytest.TempPathFactory) -> Gated:
    parity.pytester.makeconftest(FAKE + GATE)
    parity.monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
    return Gated(parity)


class Gated:
    """Runs the perf items of the fakes for real, over a fake device."""

    def __init__(self, parity: Parity) -> None:
        self.parity = parity
        self.path = parity.pytester.path

    def __call__(self, *arguments: str, answers: dict[str, str] | None = None, **gate: Any) -> pytest.RunResult:
        self.parity.monkeypatch.setenv("FAKE_GATE", json.dumps(gate))
        given = arguments or ("cutile_rs::perf::alpha[f16-4x8]",)
        ops = "" if any("::" in word for word in given) else "alpha,beta"
        return self.parity(*given, answers=answers, device="fake", ops=ops)

    def own_clock(self) -> None:
        """Let the plugin make the timer that ``--cutile-rs-timer`` names."""
        conftest = self.path / "conftest.py"
        conftest.write_text(conftest.read_text() + CLOCK)

    def project(self, text: str) -> None:
        """Write pyproject.toml."""
        self.path.joinpath("pyproject.toml").write_text(text)

    def summary(self) -> dict[str, Any]:
        """The report of the last run."""
        found: dict[str, Any] = json.loads((self.path / ".cutile_rs" / "summary.json").read_text())
        return found


@pytest.fixture
def parity(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Parity:
    return Parity(pytester, monkeypatch)


class Parity:
    """Runs pytest in a fresh folder with the fakes; ops are limited to the two fake ones."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        self.monkeypatch = monkeypatch
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        pytester.makeconftest(FAKE)
        pytester.makeini("[pytest]\naddopts = --strict-markers -W error")

    def __call__(
        self,
        *arguments: str,
        answers: dict[str, str] | None = None,
        device: str = "",
        ops: str = "alpha,beta",
    ) -> pytest.RunResult:
        self.monkeypatch.setenv("FAKE_DEVICE", device)
        self.monkeypatch.setenv("FAKE_ANSWERS", ";".join(f"{name}={value}" for name, value in (answers or {}).items()))
        chosen = ["-p", "no:anyio"]  # it may be installed; it imports asyncio, which takes as long as the run
        if ops:
            chosen += ["--cutile-rs-ops", ops]
        return self.pytester.runpytest_subprocess(*arguments, *chosen)

    def ids(self, *arguments: str) -> list[str]:
        found = self("--collect-only", "-q", *arguments)
        return [line for line in found.outlines if line.startswith("cutile_rs::")]
