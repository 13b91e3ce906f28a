# SPDX-License-Identifier: MIT
"""A parity run without torch, cargo or a GPU: a fake suite, fake sides, and checks that answer what the test says."""

from __future__ import annotations

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
    def implements(self, op): return op not in os.environ.get("FAKE_MISSING", "").split(",")
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
        chosen = ["--cutile-rs-ops", ops] if ops else []
        return self.pytester.runpytest_subprocess(*arguments, *chosen)

    def ids(self, *arguments: str) -> list[str]:
        found = self("--collect-only", "-q", *arguments)
        return [line for line in found.outlines if line.startswith("cutile_rs::")]
