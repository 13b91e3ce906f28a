# SPDX-License-Identifier: MIT
"""Work that is done ahead of its user: every job once, errors left to the user, nothing begun after the block."""

from __future__ import annotations

import threading

import pytest

from tilegym_rs_backend.port.ahead import made_ahead


def test_every_job_is_done_once_though_one_raises():
    done, all_done = [], threading.Event()

    def job(index):
        if index == 3:
            raise ValueError("the user will see this too")
        done.append(index)
        if len(done) == 9:
            all_done.set()

    with made_ahead((lambda i=i: job(i)) for i in range(10)):
        assert all_done.wait(10)
    assert sorted(done) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_two_workers_are_two_jobs_at_a_time():
    both = threading.Barrier(3, timeout=10)
    with made_ahead([both.wait, both.wait], workers=2):
        both.wait()
    assert not both.broken


def test_what_has_not_begun_at_the_end_is_left_out():
    begun, go = threading.Event(), threading.Event()
    done = []

    def first():
        begun.set()
        go.wait(10)
        done.append("first")

    def block():
        with made_ahead([first, lambda: done.append("second")], workers=1):
            assert begun.wait(10)
            threading.Timer(0.2, go.set).start()
            raise KeyError("the block failed")

    with pytest.raises(KeyError):
        block()
    assert done == ["first"]
