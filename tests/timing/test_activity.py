# SPDX-License-Identifier: MIT
"""Records and the calls they belong to."""

from __future__ import annotations

import pytest

from pytest_cutile_rs.timing.activity import Batch
from pytest_cutile_rs.timing.activity import Work
from pytest_cutile_rs.timing.activity import attribute


def work(correlation: int, start: int = 10, end: int = 20, name: str = "k") -> Work:
    return Work("kernel", name, start, end, correlation)


@pytest.mark.parametrize("swap", [False, True])
def test_driver_and_runtime_launches_are_matched_in_any_order_of_arrival(swap: bool) -> None:
    batch = Batch([work(7, 30, 45, "second"), work(5, 10, 20, "first")], [(5, 100), (7, 100)])
    if swap:
        batch.work.reverse()
        batch.external.reverse()
    call = attribute(batch).call(100)
    assert call.names == ("first", "second")
    assert (call.device_ns, call.span_ns) == (25, 35)


def test_unknown_correlation_is_unattributed_and_a_missing_call_is_empty() -> None:
    found = attribute(Batch([work(5)], [(6, 100)]))
    assert [w.name for w in found.unattributed] == ["k"]
    assert found.call(100).names == ()
    assert found.call(100).span_ns == 0


@pytest.mark.parametrize(("start", "end"), [(20, 10), (0, 10), (0, 0), (10, 10)])
def test_records_that_measure_nothing_are_counted(start: int, end: int) -> None:
    found = attribute(Batch([work(5, start, end)], [(5, 1)]))
    assert found.invalid == 1
    assert not found.call(1).valid


def test_late_records_join() -> None:
    batch = Batch([work(5)], [(5, 1)], dropped=1)
    batch.extend(Batch([work(6)], [(6, 2)], dropped=2))
    assert set(attribute(batch).calls) == {1, 2}
    assert batch.dropped == 3
