# SPDX-License-Identifier: MIT
"""The measurement loop on a fake device: what it keeps, what it throws away, what it says."""

from __future__ import annotations

import pytest

from pytest_cutile_rs import gate
from pytest_cutile_rs import stats
from pytest_cutile_rs.timing import Plan
from pytest_cutile_rs.timing import Record
from pytest_cutile_rs.timing import Timer
from pytest_cutile_rs.timing import TimingUnavailable
from pytest_cutile_rs.timing import make_timer
from pytest_cutile_rs.timing.fake import FakeDevice
from pytest_cutile_rs.timing.fake import FakeTimer

PLAN = Plan(warm_s=0.001)


def opened(**device: object) -> FakeTimer:
    timer = FakeTimer(FakeDevice(**device))  # type: ignore[arg-type]
    timer.open()
    return timer


def sides(timer: FakeTimer, rs: float = 20.0, py: float = 30.0) -> dict[str, object]:
    return {"rs": lambda: timer.device.launch("rs_kernel", rs), "py": lambda: timer.device.launch("py_kernel", py)}


def test_the_fake_is_a_timer() -> None:
    assert isinstance(make_timer("fake"), Timer)
    assert make_timer("event").gating is False
    assert make_timer("event", event_gates=True).gating is True
    with pytest.raises(ValueError, match="choose cupti, event or fake"):
        make_timer("stopwatch")


def test_times_are_those_of_the_device_and_flushes_do_not_count() -> None:
    timer = opened()
    record = timer.pair("case", sides(timer), PLAN, seed=1)
    assert record.error == ""
    assert record.kernels == {"rs": ("rs_kernel",), "py": ("py_kernel",)}
    assert record.kept == record.attempted == 200
    assert record.median_us("rs") == pytest.approx(20.0)
    assert record.median_us("py") == pytest.approx(30.0)
    assert record.unattributed == {}
    assert record.host_us["rs"] > 0
    assert Record.from_json(record.to_json()) == record


def test_until_stops_early_and_is_asked_at_doubling_counts() -> None:
    timer = opened()
    seen: list[int] = []

    def until(record: Record) -> bool:
        seen.append(record.kept)
        return record.kept >= 80

    assert timer.pair("case", sides(timer), PLAN, until=until).kept == 80
    assert seen == [20, 40, 80]


def test_the_budget_ends_the_run_but_not_before_the_first_look() -> None:
    timer = opened()
    slow = sides(timer, 50_000.0, 50_000.0)
    assert timer.pair("case", slow, Plan(warm_s=0.001, budget_s=0.1)).attempted == 20


def test_a_third_side_is_measured_in_the_same_mirrored_blocks() -> None:
    timer = opened()
    order: list[str] = []

    def side(name: str) -> object:
        def call() -> None:
            order.append(name)
            timer.device.launch(name, 10.0)

        return call

    three = {name: side(name) for name in ("rs", "py", "torch")}
    record = timer.pair("case", three, Plan(min_blocks=8, max_blocks=8, warm_s=0.001), seed=3)
    assert [len(v) for v in record.blocks.values()] == [8, 8, 8]
    blocks = [order[i : i + 6] for i in range(len(order) - 48, len(order), 6)]
    assert all(block == block[::-1] and set(block) == set(three) for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1


def test_the_order_follows_from_the_seed() -> None:
    def order(seed: int) -> list[float]:
        timer = opened(noise=0.05, seed=9)
        return timer.pair("case", sides(timer), PLAN, seed=seed).blocks["rs"]

    assert order(1) == order(1) != order(2)


def test_a_reference_that_fails_is_left_out_and_the_pair_is_judged() -> None:
    timer = opened()

    def broken() -> None:
        raise NotImplementedError("no such op")

    record = timer.pair("case", {**sides(timer), "torch": broken}, PLAN)
    assert record.sides == ("rs", "py")
    assert "no such op" in record.detail
    assert gate.judge(record).verdict == gate.PASS


@pytest.mark.parametrize("where", ["rs", "py"])
def test_a_side_that_raises_is_named(where: str) -> None:
    timer = opened()

    def broken() -> None:
        raise RuntimeError("boom")

    record = timer.pair("case", {**sides(timer), where: broken}, PLAN)
    assert record.error == f"side_error:{where}"
    assert "boom" in record.detail


def test_out_of_memory_is_its_own_reason() -> None:
    timer = opened()

    class OutOfMemoryError(RuntimeError):
        pass

    def greedy() -> None:
        raise OutOfMemoryError("no memory")

    assert timer.pair("case", {**sides(timer), "rs": greedy}, PLAN).error == "out_of_memory:rs"


def test_no_kernels_gives_the_likely_causes() -> None:
    timer = opened()
    record = timer.pair("case", {**sides(timer), "rs": lambda: None}, PLAN)
    assert record.error == "no_kernels:rs"
    assert all(cause in record.detail for cause in ("another profiler", "libcupti", "another process"))


def test_work_of_another_thread_is_named_as_unattributed() -> None:
    timer = opened()
    hidden = {**sides(timer), "rs": lambda: timer.device.launch("backward", 5.0, seen=False)}
    record = timer.pair("case", hidden, PLAN)
    assert record.error == "no_kernels:rs"
    assert "backward" in record.detail


def test_the_session_opens_once() -> None:
    timer = opened()
    with pytest.raises(RuntimeError, match="open already"):
        timer.open()
    timer.close()
    timer.close()
    with pytest.raises(RuntimeError, match="not open"):
        timer.pair("case", sides(timer), PLAN)


def test_a_session_that_loses_its_sentinel_is_refused() -> None:
    with pytest.raises(TimingUnavailable, match="sentinel") as caught:
        opened(drop_first=10)
    assert caught.value.code == "no_records"
    opened(drop_first=2)


def test_lost_records_cost_blocks_but_do_not_move_the_estimate() -> None:
    timer = opened(drop_rate=0.004, report_drops=True, seed=5)
    record = timer.pair("case", sides(timer), PLAN)
    assert 0 < record.discarded["missing"] < 10
    assert record.dropped > 0
    assert record.kept == record.attempted - record.discarded["missing"]
    assert gate.judge(record).ratio == pytest.approx(1.5)
    assert gate.judge(record).verdict == gate.PASS


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        ({"drop_rate": 0.05}, "discards"),
        ({"drop_rate": 0.05, "report_drops": True}, "dropped_records"),
        ({"invalid_rate": 0.05}, "invalid_records"),
    ],
)
def test_too_many_bad_records_are_noisy(device: dict[str, object], reason: str) -> None:
    timer = opened(seed=7, **device)
    case = gate.judge(timer.pair("case", sides(timer), PLAN))
    assert (case.verdict, case.reason) == (gate.NOISY, reason)


def test_copies_are_part_of_the_record() -> None:
    timer = opened()

    def copies() -> None:
        timer.device.launch("", 3.0, kind="memcpy")
        timer.device.launch("rs_kernel", 20.0)

    record = timer.pair("case", {**sides(timer), "rs": copies}, PLAN)
    assert record.kernels["rs"] == ("memcpy", "rs_kernel")
    assert record.median_us("rs") == pytest.approx(23.0)
    assert record.span["rs"] > 1.0


def test_a_call_that_sometimes_does_more_loses_its_block() -> None:
    timer = opened()
    calls = [0]

    def moody() -> None:
        calls[0] += 1
        timer.device.launch("rs_kernel", 20.0)
        if calls[0] % 97 == 0:
            timer.device.launch("rs_extra", 20.0)

    record = timer.pair("case", {**sides(timer), "rs": moody}, PLAN)
    assert set(record.discarded) == {"extra"}
    assert record.median_us("rs") == pytest.approx(20.0)


def test_a_device_error_ends_in_the_record() -> None:
    timer = opened()
    record_calls = [0]
    collect = timer._collector.synchronize

    def dying() -> None:
        record_calls[0] += 1
        if record_calls[0] > 200:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        collect()

    timer._collector.synchronize = dying  # type: ignore[method-assign]
    record = timer.pair("case", sides(timer), Plan(warm_s=0.2))
    assert record.error.startswith(("device_error", "side_error"))
    assert "illegal memory access" in record.detail


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(lambda s: 1 + 5 * s, id="drift"),
        pytest.param(lambda s: 1.6 if int(s * 40) % 2 else 1.0, id="throttle"),
        pytest.param(lambda s: 1 - 0.25 * 2.7 ** (-s / 0.02), id="boost"),
    ],
)
def test_a_changing_clock_moves_a_sequential_estimate_and_not_ours(slow: object) -> None:
    timer = opened(slow=slow, noise=0.01, seed=2)
    record = timer.pair("case", sides(timer, 20.0, 20.0), PLAN, seed=2)
    ours = float(stats.estimate(stats.ratios(record.blocks["py"], record.blocks["rs"])).ratio)
    assert ours == pytest.approx(1.0, abs=0.01)

    device = FakeDevice(slow=slow)  # type: ignore[arg-type]
    times = []
    for _ in range(2):
        begin = device.seconds
        for _ in range(400):
            device.launch("k", 60.0)
        times.append(device.seconds - begin)
        device.wait(200.0)
    if "drift" in str(slow) or times[1] / times[0] > 1.1:
        assert abs(times[1] / times[0] - 1) > 0.1


def test_plan_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="min <= max"):
        Plan(min_blocks=50, max_blocks=20)
    assert Plan.quick().max_blocks == 40
