# SPDX-License-Identifier: MIT
"""Loading CUPTI from a private prefix, and the collector over a stand-in module; a real session needs a GPU."""

from __future__ import annotations

import enum
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cutile_rs.timing import PairTimer
from pytest_cutile_rs.timing import Plan
from pytest_cutile_rs.timing import TimingUnavailable
from pytest_cutile_rs.timing import cupti as subject
from pytest_cutile_rs.timing import cupti_load


class Kind(enum.IntEnum):
    MEMCPY = 1
    MEMSET = 2
    DRIVER = 4
    RUNTIME = 5
    CONCURRENT_KERNEL = 10
    EXTERNAL_CORRELATION = 39


class FakeModule:
    """The part of cupti.cupti that the collector uses, over a device that launches immediately."""

    ActivityKind = Kind
    ExternalCorrelationKind = enum.IntEnum("ExternalCorrelationKind", {"CUSTOM0": 4, "CUSTOM2": 6})
    Result = enum.IntEnum(
        "Result", {"ERROR_INSUFFICIENT_PRIVILEGES": 35, "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED": 39}
    )

    class cuptiError(Exception):
        def __init__(self, status: int) -> None:
            self.status = status

    def __init__(self, *, refuse: int = 0) -> None:
        self.refuse = refuse
        self.enabled: set[int] = set()
        self.stack: list[int] = []
        self.pending: list[Any] = []
        self.now, self.correlation = 1000, 0
        self.completed: Callable[[list[Any]], None] = lambda records: None

    def activity_register_callbacks(self, requested: Callable[[], tuple[int, int]], completed: Any) -> None:
        assert requested() == (subject.BUFFER_BYTES, 0)
        self.completed = completed

    def activity_enable(self, kind: int) -> None:
        if self.refuse:
            raise self.cuptiError(self.refuse)
        self.enabled.add(kind)

    def activity_disable(self, kind: int) -> None:
        self.enabled.discard(kind)

    def activity_push_external_correlation_id(self, kind: int, ident: int) -> None:
        assert kind == 6
        self.stack.append(ident)

    def activity_pop_external_correlation_id(self, kind: int) -> int:
        return self.stack.pop()

    def activity_flush_all(self, flag: int) -> None:
        records, self.pending = self.pending, []
        self.completed(records)

    def activity_get_num_dropped_records(self, context: int, stream: int, where: int) -> None:
        import ctypes

        ctypes.c_size_t.from_address(where).value = 0

    def launch(self, name: str, us: int, *, api: Kind = Kind.DRIVER, kind: Kind = Kind.CONCURRENT_KERNEL) -> None:
        """What a launch leaves behind: an API record, its external ids, the kernel."""
        self.correlation += 1
        at = self.correlation
        self.pending.append(SimpleNamespace(kind=api, correlation_id=at, start=self.now, end=self.now + 5))
        if self.stack and api in self.enabled:
            for external_kind, ident in ((6, self.stack[-1]), (4, 99_999)):
                self.pending.append(
                    SimpleNamespace(
                        kind=Kind.EXTERNAL_CORRELATION,
                        correlation_id=at,
                        external_kind=external_kind,
                        external_id=ident,
                    )
                )
        begin, self.now = self.now, self.now + us * 1000
        self.pending.append(SimpleNamespace(kind=kind, name=name, start=begin, end=self.now, correlation_id=at))


class FakeGpu:
    def __init__(self, module: FakeModule) -> None:
        self.module = module

    def flush_l2(self) -> None:
        self.module.launch("fill", 40, api=Kind.RUNTIME)

    def sentinel(self) -> None:
        self.module.launch("tiny", 1, api=Kind.RUNTIME)

    def synchronize(self) -> None:
        self.module.now += 10_000

    def clock(self) -> float:
        return self.module.now / 1e9

    def machine(self) -> dict[str, Any]:
        return {}

    def facts(self) -> dict[str, Any]:
        return {"gpu": "fake"}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> FakeModule:
    fake = FakeModule()
    for name in subject.HOLDERS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(subject, "TorchDevice", lambda: FakeGpu(fake))
    monkeypatch.setattr(
        subject,
        "load_cupti",
        lambda prefix: cupti_load.LoadedCupti(fake, "/somewhere/libcupti.so.13", 130400, "prefix"),
    )
    return fake


def test_driver_and_runtime_launches_are_both_seen(module: FakeModule) -> None:
    timer = PairTimer(subject.CuptiCollector())
    timer.open()
    sides = {
        "rs": lambda: module.launch("rs_kernel", 20, api=Kind.DRIVER),
        "py": lambda: module.launch("py_kernel", 30, api=Kind.RUNTIME),
    }
    record = timer.pair("case", sides, Plan(warm_s=0.001, max_blocks=20))
    timer.close()
    assert record.error == ""
    assert record.discarded == {}
    assert record.unattributed == {}
    assert record.kernels == {"rs": ("rs_kernel",), "py": ("py_kernel",)}
    assert (record.median_us("rs"), record.median_us("py")) == (20.0, 30.0)
    assert timer.facts()["cupti_version"] == 130400
    assert timer.facts()["cupti_library"] == "libcupti.so.13"
    assert module.enabled == set()


def test_copies_and_memsets_are_seen(module: FakeModule) -> None:
    collector = subject.CuptiCollector()
    collector.open()
    collector.push(5)
    module.launch("", 2, kind=Kind.MEMCPY)
    module.launch("", 2, kind=Kind.MEMSET)
    collector.pop()
    batch = collector.drain()
    collector.close()
    assert [w.label for w in batch.work] == ["memcpy", "memset"]
    assert batch.external == [(1, 5), (2, 5)]


def test_one_session_in_a_process(module: FakeModule) -> None:
    first = subject.CuptiCollector()
    first.open()
    with pytest.raises(RuntimeError, match="open in this process"):
        subject.CuptiCollector().open()
    first.close()
    second = subject.CuptiCollector()
    second.open()
    second.close()


@pytest.mark.parametrize(("status", "code", "fix"), [(39, "cupti_held", "DCGM"), (35, "cupti_privileges", "SYS_ADMIN")])
def test_refusals_name_cause_and_fix(module: FakeModule, status: int, code: str, fix: str) -> None:
    module.refuse = status
    for _ in range(2):  # a refused session leaves none behind
        with pytest.raises(TimingUnavailable, match=fix) as caught:
            subject.CuptiCollector().open()
        assert caught.value.code == code


def test_an_attached_profiler_is_named(module: FakeModule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/nsys/libToolsInjection64.so")
    with pytest.raises(TimingUnavailable, match="CUDA_INJECTION64_PATH"):
        subject.CuptiCollector().open()


def test_no_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False)))
    with pytest.raises(TimingUnavailable) as caught:
        subject.CuptiCollector().open()
    assert caught.value.code == "no_gpu"


@pytest.mark.parametrize("folder", cupti_load.LIBRARY_FOLDERS)
def test_the_library_is_found_in_each_layout(tmp_path: Path, folder: str) -> None:
    assert cupti_load.find_library(tmp_path) is None
    library = tmp_path / folder / cupti_load.LIBRARY_NAME
    library.parent.mkdir(parents=True)
    library.touch()
    assert cupti_load.find_library(tmp_path) == library


def test_a_missing_package_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupti_load.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(TimingUnavailable, match="tilegym-rs setup --parity") as caught:
        cupti_load.load_cupti(tmp_path)
    assert caught.value.code == "no_cupti"


STUB_CUPTI = """
from cuda.pathfinder import load_nvidia_dynamic_lib
def get_timestamp():
    answer = load_nvidia_dynamic_lib("cupti")
    global opened
    opened = (answer.abs_path, answer._handle_uint != 0)
    return 1
"""
STUB_PATHFINDER = """
def load_nvidia_dynamic_lib(name):
    raise RuntimeError("the environment's own library was asked for")
"""
LOAD = """
import sys
from pathlib import Path
from pytest_cutile_rs.timing.cupti_load import load_cupti
before = list(sys.path)
loaded = load_cupti(Path(sys.argv[1]))
assert sys.path == before, sys.path
import cuda.pathfinder
assert cuda.pathfinder.load_nvidia_dynamic_lib.__name__ == "load_nvidia_dynamic_lib"
print(loaded.module.opened[0], loaded.module.opened[1], loaded.version, "torch" in sys.modules)
"""


def test_the_prefix_serves_package_and_library_and_leaves_no_trace(tmp_path: Path) -> None:
    prefix, environment = tmp_path / "prefix", tmp_path / "environment"
    library = prefix / "nvidia/cu13/lib/libcupti.so.13"
    for path, text in (
        (prefix / "cupti/__init__.py", ""),
        (prefix / "cupti/cupti.py", STUB_CUPTI),
        (environment / "cuda/pathfinder.py", STUB_PATHFINDER),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    library.parent.mkdir(parents=True)
    source = tmp_path / "c.c"
    source.write_text("int cuptiGetVersion(unsigned *v) { *v = 130400; return 0; }")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOAD, str(prefix)],
        env={"PYTHONPATH": f"{root}:{environment}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(library), "True", "130400", "False"]
