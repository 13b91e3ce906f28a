# SPDX-License-Identifier: MIT
"""What is written down of cuTile Python's work on a GPU; launch and tuner are stand-ins, the patching is real."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cutile_rs.peers.tileiras import file_hash
from pytest_cutile_rs.peers.tileiras import share_tileiras
from pytest_cutile_rs.peers.tileiras import tileiras_in_use

ct = pytest.importorskip("cuda.tile")


@ct.kernel(occupancy=2)
def scale(x, BLOCK: ct.Constant[int]):
    pass


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A host program's module with its own names for launch and tuner, as TileGym's modules have."""
    import cuda.tile.tune

    done: list[Any] = []

    def launch(stream: Any, grid: Any, kernel: Any, args: Any) -> None:
        done.append((stream, grid, args))

    def search(search_space: Any, stream: Any, grid_fn: Any, kernel: Any, args_fn: Any, **_: Any) -> Any:
        configs = list(search_space)
        best = SimpleNamespace(config=configs[-1])
        return SimpleNamespace(best=best, successes=[best], failures=[("one", ValueError, "no")])

    monkeypatch.setattr(ct, "launch", launch)
    monkeypatch.setattr(cuda.tile.tune, "exhaustive_search", search)
    module = ModuleType("observed_host_program")
    module.exhaustive_search = search  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.done = done  # type: ignore[attr-defined]
    return module


def test_launches_and_searches_are_passed_on_and_written_down(host: Any) -> None:
    import torch

    from pytest_cutile_rs.peers.observe import observing

    x = torch.empty(8)
    with observing("sm_90") as seen:
        result = host.exhaustive_search([{"BLOCK": 4}, {"BLOCK": 8}], "stream", len, scale, len)
        ct.launch("stream", (4,), scale, (x, result.best.config["BLOCK"]))
        ct.launch("stream", (2, 2), scale, ("too few",))
    assert [grid for _, grid, _ in host.done] == [(4,), (2, 2)]
    assert host.done[0][2] == (x, 8)
    first, odd = seen["launches"]
    assert (first["kernel"], first["grid"], first["constants"]) == ("scale", [4, 1, 1], {"BLOCK": 8})
    assert first["hints"]["occupancy"] == 2
    assert odd["kernel"] == "scale"
    assert "takes 2 arguments" in odd["unread"]
    [search] = seen["tuning"]
    assert (search["configurations"], search["chosen"], search["failed"]) == (2, "{'BLOCK': 8}", 1)
    assert search["listed"] == ["{'BLOCK': 4}", "{'BLOCK': 8}"]
    assert search["seconds"] >= 0
    ct.launch("stream", (1,), scale, (x, 1))
    assert len(seen["launches"]) == 2


def test_of_a_ported_op_what_its_tuner_chose_and_the_translation_that_runs(host: Any, monkeypatch: Any) -> None:
    """A second call finds the choice where TileGym remembers it, by a key that meta tensors do not have."""
    import torch

    from pytest_cutile_rs.backend import CutileRsBackend
    from tilegym_rs_backend.port import redirect as redirecting

    x = torch.empty(8)
    remembered: list[int] = []

    def op(*_: Any, **__: Any) -> None:
        if not remembered:
            found = host.exhaustive_search([{"BLOCK": 4}, {"BLOCK": 8}], "stream", len, scale, len)
            remembered.append(found.best.config["BLOCK"])
        ct.launch("stream", (4,), scale, (x, remembered[0]))

    backend = CutileRsBackend("ported")
    entry = SimpleNamespace(entry=lambda launch: SimpleNamespace(name=f"scale_of_{launch.constants['BLOCK']}"))
    monkeypatch.setattr(redirecting, "redirect", lambda: SimpleNamespace(kernels=entry))
    monkeypatch.setattr(backend, "kind", lambda name: "ported")
    monkeypatch.setattr(backend, "call", op)
    suite: Any = SimpleNamespace(name="op", native=False)
    for searches in (1, 0):
        seen = backend.observe(suite, None, None, "sm_90")  # type: ignore[arg-type]
        assert [launch["kernel"] for launch in seen["launches"]] == ["scale_of_8"]
        assert len(seen["tuning"]) == searches


def test_of_a_ported_op_that_returns_a_function_what_that_launches(host: Any, monkeypatch: Any) -> None:
    """TileGym's get_swiglu() and the like: what they return is wrapped, and taken over, while it is being watched."""
    import torch

    from pytest_cutile_rs.backend import CutileRsBackend
    from tilegym_rs_backend.port import redirect as redirecting
    from tilegym_rs_backend.port.redirected import ported

    answered: list[Any] = []
    entry = SimpleNamespace(entry=lambda launch: SimpleNamespace(name=f"{launch.name}_in_rust"))
    answers = SimpleNamespace(direct=None, kernels=entry, launch=lambda *launch: answered.append(launch))
    monkeypatch.setattr(redirecting, "redirect", lambda: answers)
    x = torch.empty(8)

    def factory() -> Any:
        return lambda: ct.launch("stream", (4,), scale, (x, 8))

    backend = CutileRsBackend("ported")
    monkeypatch.setattr(backend, "kind", lambda name: "ported")
    monkeypatch.setattr(backend, "call", lambda *_: ported(factory)()())
    suite: Any = SimpleNamespace(name="op", native=False)
    for calls in (1, 2):
        seen = backend.observe(suite, None, None, "sm_90")  # type: ignore[arg-type]
        assert [launch["kernel"] for launch in seen["launches"]] == ["scale_in_rust"]
        assert len(answered) == calls
    assert host.done == []


def test_the_assembler_in_use_is_told_by_its_content(tmp_path: Path) -> None:
    tools = []
    for name in ("a", "b"):
        tool = tmp_path / name / "tileiras"
        tool.parent.mkdir()
        tool.write_bytes(b"#!/bin/sh\n# " + name.encode() * 5000)
        tool.chmod(0o700)
        tools.append(tool)
    shared = share_tileiras(tools[0], "13.4.92", tmp_path / "private")
    try:
        assert tileiras_in_use() == file_hash(tools[0])
        assert tileiras_in_use() != file_hash(tools[1])
    finally:
        shared.undo()
    assert len(file_hash(tools[0])) == 64
    assert file_hash(tmp_path / "none") == ""
