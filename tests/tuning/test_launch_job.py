# SPDX-License-Identifier: MIT
"""What the measuring process does, with real kernels executed on the CPU: candidates run, are compared and timed."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from tilegym_rs_backend.ops import _matmul_space
from tilegym_rs_backend.ops._matmul_space import Config
from tilegym_rs_backend.ops._matmul_space import Operand
from tilegym_rs_backend.ops._matmul_space import Problem
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tuning.job import LaunchJob
from tilegym_rs_backend.tuning.job import Spec
from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.measure import Terms
from tilegym_rs_backend.tuning.measure import halve
from tilegym_rs_backend.tuning.space import show

pytestmark = pytest.mark.cargo
PROBLEM = Problem(
    64, 48, 40, Operand((64, 40), (40, 1), True, False), Operand((40, 48), (48, 1), True, False), torch.float16
)
CONFIGS = [Config(32, 32, 32), Config(16, 16, 32), Config(32, 16, 32, persistent=True, latency=2, occupancy=1)]


class Watch:
    """Says how long each call took by counting: the second candidate is the fastest."""

    def __init__(self):
        self.calls = 0

    def run(self, call):
        call()

    def sample(self, call, before=None):
        before()
        call()
        self.calls += 1
        return 10.0 + (self.calls % len(CONFIGS))

    def sound(self):
        return True


def job(failed=(), space=_matmul_space.SPACE, monkeypatch=None):
    if monkeypatch is not None:
        monkeypatch.setattr(_matmul_space, "SPACE", space)
    spec = Spec("tilegym_rs_backend.ops._matmul_space", "matmul", PROBLEM, tuple(map(show, CONFIGS)), 0)
    return LaunchJob(spec, failed, target=executing_target("sm_90"), stopwatch=Watch())


def test_candidates_that_agree_are_timed():
    one = job()
    found = halve(len(CONFIGS), one, Terms(warm_s=0.0, rounds=(2, 2)))
    assert (found.failed, found.best >= 0, sorted(found.us)) == ({}, True, [0, 1, 2])
    assert one.sound()


def test_a_candidate_with_another_result_is_dropped(monkeypatch):
    """The second one reads b transposed: the launch is legal, and wrong."""

    def wrong(problem, config, machine):
        one = _matmul_space.launch(problem, config, machine)
        if config != CONFIGS[1]:
            return one
        half = dataclasses.replace(config, bk=16)
        return dataclasses.replace(_matmul_space.launch(problem, half, machine), grid=(1, 1, 1))

    one = job(space=dataclasses.replace(_matmul_space.SPACE, launch=wrong), monkeypatch=monkeypatch)
    found = halve(len(CONFIGS), one, Terms(warm_s=0.0, rounds=(1,)))
    assert list(found.failed) == [1]
    assert "its result differs from the default configuration's" in found.failed[1]


def test_in_a_new_process_the_first_that_has_not_failed_is_the_reference():
    one = job(failed=[0])
    one.sample(2)
    assert sorted(one._runs) == [1, 2]


def test_a_kernel_that_cannot_be_launched_is_a_reason(monkeypatch):
    def refused(problem, config, machine):
        one = _matmul_space.launch(problem, config, machine)
        return dataclasses.replace(one, kernel="nothing") if config == CONFIGS[1] else one

    one = job(space=dataclasses.replace(_matmul_space.SPACE, launch=refused), monkeypatch=monkeypatch)
    one.prepare(0)
    with pytest.raises(Exception, match="no kernel 'nothing'") as caught:
        one.prepare(1)
    assert not isinstance(caught.value, Failed)  # `worker.serve` makes one of it
