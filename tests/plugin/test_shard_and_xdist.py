# SPDX-License-Identifier: MIT
"""One suite over several runs, workers and GPUs: every check once, cases whole, the same verdicts."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_cutile_rs import gpus
from pytest_cutile_rs.shard import Shard

SLOW = {"cases": {"f16-4x8": {"py": 18}}}


def verdicts(summary: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["status"] for one in summary["results"]}


def cases(ids: list[str]) -> set[str]:
    return {name.split("::")[2] for name in ids}


def test_shards_are_whole_cases_and_together_the_suite(parity) -> None:
    everything = parity.ids("--cutile-rs")
    parts = [parity.ids("--cutile-rs", "--cutile-rs-shard", f"{index}/3") for index in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(everything)
    assert [len(cases(part)) for part in parts] == [3, 3, 2]
    assert not cases(parts[0]) & cases(parts[1])
    assert parity.ids("--cutile-rs", "--cutile-rs-shard", "1/3") == parts[0]
    listed = parity("--cutile-rs-list", "--cutile-rs-shard", "3/3").outlines
    assert listed[-1].startswith("2 cases")


def test_sharded_and_plain_verdicts_agree(gated) -> None:
    chosen = ("--cutile-rs", "--cutile-rs-checks", "numerics,perf")
    assert gated(*chosen, **SLOW).ret == pytest.ExitCode.TESTS_FAILED
    plain = verdicts(gated.summary())
    together: dict[str, str] = {}
    for index in (1, 2):
        result = gated(*chosen, "--cutile-rs-shard", f"{index}/2", **SLOW)
        result.stdout.fnmatch_lines([f"cutile-rs: *; shard {index}/2; *"])
        written = gated.summary()
        assert written["run"]["shard"] == f"{index}/2"
        together |= verdicts(written)
    assert together == plain
    assert sorted(plain.values()) == ["FAIL"] * 2 + ["PASS"] * 10


def test_xdist_gives_each_worker_a_gpu_and_gathers_what_they_found(gated) -> None:
    pytest.importorskip("xdist")
    chosen = ("--cutile-rs", "--cutile-rs-checks", "numerics,perf")
    gated(*chosen, **SLOW)
    plain = verdicts(gated.summary())
    gated.parity.monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    result = gated(*chosen, "-n", "3", **SLOW)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    written = gated.summary()
    assert verdicts(written) == plain
    machine = written["machine"]
    assert machine["gpu_uuids"]
    assert set(machine["gpu_uuids"]) <= {"GPU-4", "GPU-7"}
    assert (machine["gpu"], machine["library_build_id"]) == ("Fake GPU", "b1")
    assert machine["timer"]["timer"] == "fake"
    floors = {one["gpu"] for one in written["noise_floor"]["measured"]}
    assert floors
    assert floors <= set(machine["gpu_uuids"])  # a worker that got no perf case measures no floor


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(ValueError, match="is no shard; write i/n with 1 <= i <= n"):
        Shard.parse(text)


def test_a_bad_shard_is_a_usage_error(parity) -> None:
    result = parity("--cutile-rs", "--cutile-rs-shard", "3/2")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cutile-rs-shard: '3/2' is no shard; write i/n with 1 <= i <= n, such as 1/2"])


def test_keys_are_dealt_out_in_turn_and_stay_together() -> None:
    members = [(key, f"{key}{n}") for n in (1, 2) for key in "abcde"]
    assert list(Shard(1, 2).part(members)) == ["a1", "c1", "e1", "a2", "c2", "e2"]
    assert list(Shard(2, 2).part(members)) == ["b1", "d1", "b2", "d2"]
    assert list(Shard(4, 9).part(members)) == ["d1", "d2"]


@pytest.mark.parametrize(
    ("given", "found"),
    [("", ()), ("0", ("0",)), ("2,5", ("2", "5")), ("GPU-a, GPU-b", ("GPU-a", "GPU-b")), ("0,-1,1", ("0",))],
)
def test_visible_gpus_are_those_of_the_environment(given: str, found: tuple[str, ...]) -> None:
    assert gpus.visible({gpus.VISIBLE: given}) == found


def test_without_the_variable_the_device_nodes_are_counted(tmp_path: Path) -> None:
    assert gpus.visible({}, tmp_path / "none") == ()
    for name in ("nvidia3", "nvidia5", "nvidiactl", "nvidia-uvm", "nvidia5x"):
        (tmp_path / name).touch()
    assert gpus.visible({}, tmp_path) == ("0", "1")
    environment: dict[str, str] = {}
    assert gpus.assign("gw1", environment, tmp_path) == environment[gpus.VISIBLE] == "1"


def test_workers_take_gpus_in_turn() -> None:
    chosen = []
    for worker in ("gw0", "gw1", "gw2", "gw11"):
        environment = {gpus.VISIBLE: "4,7,9"}
        chosen.append(gpus.assign(worker, environment))
        assert environment[gpus.VISIBLE] == chosen[-1]
    assert chosen == ["4", "7", "9", "9"]
    alone = {gpus.VISIBLE: "4"}
    assert gpus.assign("gw3", alone) is None
    assert alone == {gpus.VISIBLE: "4"}


def test_a_worker_with_cuda_up_sets_the_device_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    cuda = SimpleNamespace(is_initialized=lambda: True, set_device=asked.append)
    monkeypatch.setitem(__import__("sys").modules, "torch", SimpleNamespace(cuda=cuda))
    environment = {gpus.VISIBLE: "4,7"}
    assert gpus.assign("gw3", environment) == "7"
    assert (asked, environment) == ([1], {gpus.VISIBLE: "4,7"})


def hold(gpu: str, folder: str, exclusive: bool, ready: Any, go: Any) -> None:
    with gpus.turn(gpu, Path(folder), exclusive=exclusive):
        ready.set()
        go.wait(30)


def waits(gpu: str, folder: str, exclusive: bool, patience: float = 20.0) -> bool:
    """Whether another process has to wait for its turn, longer than ``patience``."""
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()
    go.set()
    other = context.Process(target=hold, args=(gpu, folder, exclusive, ready, go))
    other.start()
    came = ready.wait(patience)
    if not came:
        assert other.pid is not None
        os.kill(other.pid, 9)
    other.join(10)
    return not came


@pytest.mark.parametrize(
    ("mine", "gpu", "theirs", "blocked"),
    [
        (True, "A", True, True),
        (True, "A", False, True),
        (False, "A", True, True),
        (False, "A", False, False),
        (True, "B", True, False),
    ],
)
def test_one_measurement_at_a_time_on_each_gpu(
    tmp_path: Path, mine: bool, gpu: str, theirs: bool, blocked: bool
) -> None:
    with gpus.turn("A", tmp_path / "locks", exclusive=mine):
        assert waits(gpu, str(tmp_path / "locks"), theirs, 1.0 if blocked else 20.0) is blocked
    assert waits("A", str(tmp_path / "locks"), True) is False


def test_the_lock_dies_with_its_owner(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready, go = context.Event(), context.Event()
    owner = context.Process(target=hold, args=("A", str(tmp_path), True, ready, go))
    owner.start()
    assert ready.wait(10)
    assert waits("A", str(tmp_path), True, 1.0) is True
    assert owner.pid is not None
    os.kill(owner.pid, 9)
    owner.join(10)
    assert waits("A", str(tmp_path), True) is False
    assert json.dumps([path.name for path in tmp_path.iterdir()]).count("gpu-") == 1
