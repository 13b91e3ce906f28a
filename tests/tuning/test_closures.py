# SPDX-License-Identifier: MIT
"""`autotune_launch` over closures, with the caller's timer and with a stopwatch over a fake clock."""

from __future__ import annotations

import threading

import pytest
import torch

from tilegym_rs_backend import compat
from tilegym_rs_backend.errors import CaptureError
from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.tuning import closures
from tilegym_rs_backend.tuning.closures import autotune_launch

MS = {"a": 2.0, "b": 1.0, "c": 3.0}


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(closures, "_tuned", {})


class Calls:
    """A closure that says with which configurations it ran."""

    def __init__(self):
        self.configs = []

    def __call__(self, config):
        if config == "broken":
            raise NotImplementedError("no such tile")
        self.configs.append(config)
        return f"output of {config}"

    def timer(self, call, warmup, rep):
        call()
        return MS[self.configs[-1]]


def test_the_name_is_still_where_wrappers_import_it_from():
    assert compat.autotune_launch is autotune_launch
    assert compat.TunedResult is closures.TunedResult


def test_the_fastest_runs_and_is_remembered_by_key():
    calls = Calls()
    first = autotune_launch(calls, ["a", "b", "c"], key=(4, 4), timer=calls.timer)
    assert (first.best_config, first.output, first.cache_hit) == ("b", "output of b", False)
    assert first.tuning_record == [("a", 2.0), ("b", 1.0), ("c", 3.0)]
    before = len(calls.configs)
    second = autotune_launch(calls, ["a", "b", "c"], key=(4, 4), timer=calls.timer)
    assert (second.best_config, second.cache_hit, second.tuning_record) == ("b", True, first.tuning_record)
    assert calls.configs[before:] == ["b"]
    assert not autotune_launch(calls, ["a", "b"], key=(8, 4), timer=calls.timer).cache_hit
    assert not autotune_launch(calls, ["a", "b"], key=(4, 4), kernel_name="other", timer=calls.timer).cache_hit


def test_one_configuration_is_not_measured():
    calls = Calls()
    assert autotune_launch(calls, ["c"], key=1, timer=calls.timer).output == "output of c"
    assert calls.configs == ["c"]


def test_no_configuration_and_none_that_works_are_errors_with_reasons():
    calls = Calls()
    with pytest.raises(TilegymRsError, match="softmax: no configuration to choose from"):
        autotune_launch(calls, [], key=1, kernel_name="softmax")
    with pytest.raises(TilegymRsError, match="every configuration failed: broken: no such tile; broken: no such tile"):
        autotune_launch(calls, ["broken", "broken"], key=1, timer=lambda call, warmup, rep: call())


def test_what_fails_is_recorded_with_its_reason():
    calls = Calls()
    found = autotune_launch(calls, ["broken", "a"], key=1, timer=calls.timer)
    assert found.best_config == "a"
    assert found.tuning_record == [("broken", "no such tile"), ("a", 2.0)]


def test_threads_measure_once():
    calls, found = Calls(), []

    def run():
        found.append(autotune_launch(calls, ["a", "b"], key=1, timer=calls.timer).cache_hit)

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [False] + [True] * 7


def test_never_under_a_capture(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    calls = Calls()
    with pytest.raises(CaptureError, match="softmax: tuning is not possible under graph capture"):
        autotune_launch(calls, ["a", "b"], key=1, kernel_name="softmax", timer=calls.timer)
    assert calls.configs == []
    assert autotune_launch(calls, ["a"], key=1, timer=calls.timer).best_config == "a"


class Watch:
    """A stopwatch whose interval is what the closure's configuration says."""

    def __init__(self, device):
        self.device = device

    def sample(self, call, before=None):
        if before is not None:
            before()
        return 1e3 * MS[call().split()[-1]]


def test_without_a_timer_events_measure_what_is_put_back_before_each_run(monkeypatch):
    monkeypatch.setattr(closures, "Stopwatch", Watch)
    state = torch.zeros(4)
    seen = []

    def kernel_fn(config):
        seen.append(state.clone())
        state.add_(1)
        return f"output of {config}"

    found = autotune_launch(kernel_fn, ["a", "b", "c"], key=1, warmup=1, rep=6, in_place=[state])
    assert found.best_config == "b"
    assert found.tuning_record == [("a", 2.0), ("b", 1.0), ("c", 3.0)]
    assert all(torch.equal(each, torch.zeros(4)) for each in seen)
    assert len(seen) == 3 + 3 * 2 + 2 * 4 + 1  # warm-up, two rounds, and the call that was asked for
    assert torch.equal(state, torch.ones(4))
