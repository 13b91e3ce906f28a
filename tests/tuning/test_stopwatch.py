# SPDX-License-Identifier: MIT
"""What is enqueued for a sample, in which order, over a fake of torch.cuda."""

from __future__ import annotations

import pytest

from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.stopwatch import OVERWRITES
from tilegym_rs_backend.tuning.stopwatch import Stopwatch


class Cuda:
    """Notes what is enqueued; an event is done after it was asked `busy` times."""

    def __init__(self, busy=2):
        self.queue, self.busy = [], busy
        outer = self

        class Event:
            def __init__(self, enable_timing=False):
                assert enable_timing
                self.asked = 0

            def record(self):
                outer.queue.append("event")

            def query(self):
                self.asked += 1
                return self.asked > outer.busy

            def elapsed_time(self, other):
                return 0.0125

        self.Event = Event


class Scratch:
    def __init__(self, cuda):
        self.cuda = cuda

    def zero_(self):
        self.cuda.queue.append("flush")

    def __getitem__(self, part):
        assert part == slice(1)
        return Part(self.cuda)


class Part(Scratch):
    def zero_(self):
        self.cuda.queue.append("flush of a part")


def test_restoring_and_flushing_lie_outside_of_the_interval():
    cuda = Cuda()
    watch = Stopwatch(0, cuda=cuda, scratch=Scratch(cuda))
    us = watch.sample(lambda: cuda.queue.append("call"), lambda: cuda.queue.append("restore"))
    assert us == pytest.approx(12.5)
    assert cuda.queue == ["restore", *["flush"] * OVERWRITES, "event", "call", "event"]


def test_the_floor_is_the_median_of_the_least_launch_timed_like_any_call():
    cuda = Cuda()
    times = iter([0.004, 0.009, 0.003])
    cuda.Event.elapsed_time = lambda self, other: next(times)
    watch = Stopwatch(0, cuda=cuda, scratch=Scratch(cuda))
    assert watch.floor(samples=3) == pytest.approx(4.0)
    assert cuda.queue[OVERWRITES:] == [*["flush"] * OVERWRITES, "event", "flush of a part", "event"] * 3


def test_a_run_is_waited_for():
    cuda = Cuda(busy=3)
    Stopwatch(0, cuda=cuda, scratch=Scratch(cuda)).run(lambda: cuda.queue.append("call"))
    assert cuda.queue == ["call", "event"]


def test_a_device_is_unsound_once_it_cannot_be_waited_for():
    cuda = Cuda()
    watch = Stopwatch(1, cuda=cuda, scratch=Scratch(cuda))
    cuda.synchronize = cuda.queue.append
    assert watch.sound()
    assert cuda.queue == [1]

    def fault(device):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    cuda.synchronize = fault
    assert not watch.sound()


def test_a_call_that_does_not_end_is_given_up_at_the_deadline():
    cuda = Cuda(busy=10**9)
    watch = Stopwatch(0, cuda=cuda, scratch=Scratch(cuda), deadline_s=0.05)
    with pytest.raises(Failed, match=r"did not end within 0\.05 s on the GPU"):
        watch.sample(lambda: None)
