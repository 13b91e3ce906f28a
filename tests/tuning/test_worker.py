# SPDX-License-Identifier: MIT
"""The measuring process: a candidate that fails, faults or hangs costs itself; the process goes on or is replaced."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.measure import Terms
from tilegym_rs_backend.tuning.measure import halve
from tilegym_rs_backend.tuning.worker import WorkerRunner
from tilegym_rs_backend.tuning.worker import WorkerUnavailable

COMMAND = (sys.executable, str(Path(__file__).with_name("fake_worker.py")))


def runner(*spec, step_s=20.0):
    return WorkerRunner(list(spec), command=COMMAND, step_s=step_s)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_times_come_from_one_other_process_that_ends_with_the_runner():
    with runner("pid", "pid") as one:
        one.prepare(0)
        pid = int(one.sample(0))
        assert pid != os.getpid()
        assert one.sample(1) == pid
        assert alive(pid)
    assert not alive(pid)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("refused", "^matmul: cuModuleLoadData: out of shared memory$"),
        ("wrong", "^its result differs$"),
    ],
)
def test_a_refusal_is_a_reason_and_the_process_goes_on(what, why):
    with runner(what, "pid") as one:
        before = one.sample(1)
        with pytest.raises(Failed, match=why):
            one.prepare(0)
        assert one.sample(1) == before


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("dies", "^its process ended by signal 9: of the kernel$"),
        ("exits", "^its process ended with status 3: terminate called$"),
        ("breaks the device", "^CUDA error: an illegal memory access was encountered$"),
    ],
)
def test_a_fault_costs_one_candidate_and_the_next_has_a_new_process(what, why):
    with runner(what, "pid", "failed before") as one:
        before = one.sample(1)
        with pytest.raises(Failed, match=why):
            one.prepare(0)
        assert one.sample(1) != before
        assert one.sample(2) == 1.0  # the new process knows who failed, and takes another for reference


def test_a_candidate_that_hangs_is_ended_at_the_deadline():
    with runner("hangs", "pid", step_s=1.0) as one:
        first = int(one.sample(1))
        begin = time.monotonic()
        with pytest.raises(Failed, match=r"^did not answer within 1 s and was ended$"):
            one.prepare(0)
        assert time.monotonic() - begin < 10
        assert not alive(first)
        assert int(one.sample(1)) != first


@pytest.mark.parametrize(
    ("what", "why"),
    [("full", "cannot start: RuntimeError: CUDA out of memory"), ("dies at once", "status 7: cannot open the device")],
)
def test_a_process_that_cannot_open_the_device_is_said_so(what, why):
    with runner(what) as one, pytest.raises(WorkerUnavailable, match=why):
        one.prepare(0)


def test_processes_that_keep_ending_are_given_up():
    with runner(*["exits"] * 9) as one:
        for index in range(7):
            with pytest.raises(Failed, match="status 3"):
                one.prepare(index)
        with pytest.raises(WorkerUnavailable, match="ended 7 times, the last time: its process ended with status 3"):
            one.prepare(7)


def test_a_whole_search_survives_every_kind_of_failure():
    spec = [30.0, "hangs", "dies", 10.0, "refused", 20.0, "breaks the device", "wrong"]
    with runner(*spec, step_s=3.0) as one:
        found = halve(len(spec), one, Terms(warm_s=0.0))
    assert found.best == 3
    assert sorted(found.failed) == [1, 2, 4, 6, 7]
    assert found.us == {0: 30.0, 3: 10.0, 5: 20.0}
