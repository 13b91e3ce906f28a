# SPDX-License-Identifier: MIT
"""The cubin store: hits that need no tools, corruption, refusals, one compilation for many threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tilegym_rs_backend import artifacts
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.store import Store


@pytest.fixture
def store(tmp_path, monkeypatch):
    found = Store(tmp_path)
    monkeypatch.setattr(artifacts, "_store", lambda: found)
    monkeypatch.setattr(artifacts, "tileiras_tag", lambda: "test")
    return found


class Assembler:
    """Stands for tileiras; counts its runs."""

    def __init__(self, result=b"cubin"):
        self.runs = 0
        self.result = result

    def __call__(self, bytecode, arch, name):
        self.runs += 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result + bytecode


@pytest.fixture
def assembler(monkeypatch):
    found = Assembler()
    monkeypatch.setattr(artifacts, "_run_tileiras", found)
    return found


def test_a_second_call_hits(store, assembler):
    assert artifacts.assemble(b"a", "sm_90") == artifacts.assemble(b"a", "sm_90") == b"cubina"
    assert assembler.runs == 1
    artifacts.assemble(b"a", "sm_100")
    artifacts.assemble(b"b", "sm_90")
    assert assembler.runs == 3


def test_fresh_bypasses_the_store(store, assembler):
    artifacts.assemble(b"a", "sm_90", fresh=True)
    artifacts.assemble(b"a", "sm_90", fresh=True)
    assert assembler.runs == 2
    assert not list(store.root.iterdir())


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: b"", lambda data: data[:40] + b"X" + data[41:]]
)
def test_a_corrupt_entry_is_found_and_replaced(store, assembler, damage):
    artifacts.assemble(b"a", "sm_90")
    (file,) = (path for path in (store.root / "cubins").rglob("*") if path.is_file())
    file.write_bytes(damage(file.read_bytes()))
    assert artifacts.assemble(b"a", "sm_90") == b"cubina"
    assert assembler.runs == 2
    assert artifacts.assemble(b"a", "sm_90") == b"cubina"
    assert assembler.runs == 2


def test_bytecode_is_kept_and_a_corrupt_file_is_made_again(store):
    made = []

    def front_end():
        made.append(1)
        return b"bytecode"

    assert [artifacts.stored_bytecode("key", front_end) for _ in range(2)] == [b"bytecode"] * 2
    assert len(made) == 1
    (file,) = (path for path in (store.root / "bytecode").rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes()[:-1])
    assert artifacts.stored_bytecode("key", front_end) == b"bytecode"
    artifacts.stored_bytecode("other", front_end)
    assert len(made) == 3


def test_a_refusal_is_remembered_with_its_text(store, assembler):
    assembler.result = artifacts._Refused("tileiras (exit 3) refused k for sm_90: softmax.rs:12:3: bad tile")
    for _ in range(2):
        with pytest.raises(CompileError, match=r"softmax.rs:12:3: bad tile"):
            artifacts.assemble(b"a", "sm_90")
    assert assembler.runs == 1


def test_a_timeout_is_not_remembered(store, assembler):
    assembler.result = CompileError("too slow")
    for _ in range(2):
        with pytest.raises(CompileError, match="too slow"):
            artifacts.assemble(b"a", "sm_90")
    assert assembler.runs == 2


def test_threads_share_one_compilation(store, assembler):
    barrier, results = threading.Barrier(8), []

    def work():
        barrier.wait()
        results.append(artifacts.assemble(b"a", "sm_90"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"cubina"] * 8
    assert assembler.runs == 1


def test_an_unwritable_store_costs_time_not_failure(store, assembler, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *args: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert artifacts.assemble(b"a", "sm_90") == b"cubina"
    assert artifacts.assemble(b"a", "sm_90") == b"cubina"
    assert assembler.runs == 2
    assert not [path for path in store.root.rglob("*") if path.is_file()], "no temporary file is left"


def _tool(tmp_path, body):
    path = tmp_path / "tileiras"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_the_tool_runs_in_a_scrubbed_environment(tmp_path, monkeypatch):
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        monkeypatch.setenv(name, "/somewhere")
    tool = _tool(tmp_path, 'echo "home=$CUDA_HOME$CUDA_PATH$CUDA_ROOT"; exit 3')
    monkeypatch.setattr(artifacts, "tileiras", lambda: tool)
    with pytest.raises(CompileError, match=r"exit 3.*home=$"):
        artifacts._run_tileiras(b"", "sm_90", "k")


def test_a_hanging_tool_is_killed_with_its_children(tmp_path, monkeypatch):
    tool = _tool(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    monkeypatch.setattr(artifacts, "tileiras", lambda: tool)
    monkeypatch.setattr(artifacts, "TIMEOUT_SECONDS", 1.0)
    with pytest.raises(CompileError, match="more than 1 s"):
        artifacts._run_tileiras(b"", "sm_90", "k")
    child = int((tmp_path / "child").read_text())
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(child)], capture_output=True, text=True).stdout.strip()
    assert state[:1] in ("", "Z"), "the child is gone"


WARM_HOST = """
import sys
import torch
sys.path.insert(0, {tests!r})
from tilegym_rs_backend.library import get_library
from tilegym_rs_backend.launch import record, load
from tilegym_rs_backend.ops.softmax import softmax
from tilegym_rs_backend import artifacts
library = get_library()
if {warm}:
    artifacts.emit = lambda *a: (_ for _ in ()).throw(AssertionError("the front end ran"))
    artifacts._run_tileiras = lambda *a: (_ for _ in ()).throw(AssertionError("tileiras ran"))
with record("sm_90") as launches:
    softmax(torch.empty(32, 100, device="meta"))
print(len(artifacts.cubin(library, launches[0].token, "sm_90")))
"""


@pytest.mark.cargo
def test_a_warm_store_needs_neither_path_nor_front_end_nor_tileiras(tmp_path):
    """The second process reaches the launch from the store alone: empty PATH, front end and tileiras made to fail."""
    from tilegym_rs_backend.library import get_library

    path = get_library().path
    env = {**os.environ, "TILEGYM_RS_LIBRARY": str(path), "PYTHONWARNINGS": "ignore"}

    def run(warm, **extra):
        code = WARM_HOST.format(tests=str(tmp_path), warm=warm)
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env={**env, **extra}, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    cold = run(False)
    assert run(True, PATH="") == cold
