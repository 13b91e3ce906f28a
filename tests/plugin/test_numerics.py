# SPDX-License-Identifier: MIT
"""The numerics check over torch stand-ins for both sides, and the case files' own inputs and references."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks import numerics
from pytest_cutile_rs.suites import suites

CPU = Device("cpu")
SMALL = [
    (suite, case)
    for suite in suites().values()
    for case in suite.cases
    if not case.raises and max(case.shape) <= 1100 and suite.bytes_moved(case) < 1 << 21
]


class Sides:
    """Both sides: ours does what ``run`` does, theirs what torch does."""

    def __init__(self, run, theirs=None) -> None:
        self.run = run
        self.theirs = theirs
        self.case = None

    def call(self, suite, call, tuned=True):
        return self.run(suite, self.case, call)

    def available(self):
        return None


def through_torch(suite, case, call):
    """What a right kernel does: compute wide, round once, into fresh memory or out=."""
    wide = suite.torch(case, dataclasses.replace(call, args=tuple(one.float() for one in call.args)))
    out = call.kwargs.get("out")
    if out is None:
        out = torch.empty(wide.shape, dtype=call.args[0].dtype)
    return out.copy_(wide)


def run(suite, case: Case, ours, theirs=through_torch, device: Device = CPU):
    one, other = Sides(ours), Sides(theirs)
    one.case = other.case = case
    return numerics.check(one, lambda: other, suite, case, device, "sm_90", 0)


@pytest.mark.parametrize(("suite", "case"), SMALL, ids=[f"{case.op}-{case.id}" for _, case in SMALL])
def test_a_right_result_passes_every_small_case(suite, case: Case) -> None:
    result = run(suite, case, through_torch)
    assert result.status == "PASS", result.details
    assert result.data["ours"]["bad"] == 0


def softmax():
    suite = suites()["softmax"]
    return suite, next(case for case in suite.cases if case.id == "f16-16x128-nan")


def test_nan_that_is_dropped_fails() -> None:
    suite, case = softmax()
    result = run(suite, case, lambda *them: through_torch(*them).nan_to_num_(0.0))
    assert result.status == "FAIL"
    assert "NaN policy: a NaN" in result.details


def test_a_modified_input_fails() -> None:
    suite, case = softmax()

    def careless(suite, case, call):
        result = through_torch(suite, case, call)
        call.args[0][7, 0] += 1
        return result

    assert run(suite, case, careless).reason == "input 0 was modified"


def test_a_write_past_the_end_fails() -> None:
    suite, case = softmax()

    def careless(suite, case, call):
        result = through_torch(suite, case, call)
        torch.as_strided(result, (1,), (1,), result.storage_offset() + result.numel()).fill_(1.0)
        return result

    assert "guard elements after the output of torch.empty" in run(suite, case, careless).reason


def test_an_element_that_is_not_written_fails() -> None:
    suite, case = softmax()

    def lazy(suite, case, call):
        wide = suite.torch(case, call)
        result = torch.empty(wide.shape, dtype=wide.dtype)
        result[:-1] = wide[:-1]
        return result

    assert run(suite, case, lazy).status == "FAIL"


def test_another_stride_than_the_peers_fails() -> None:
    suite, case = softmax()
    result = run(suite, case, lambda *them: through_torch(*them).t().contiguous().t())
    assert result.reason == "stride (1, 16), cuTile Python's is (128, 1)"


def test_the_peers_failure_is_reported_and_not_ours() -> None:
    suite, case = softmax()

    def broken(*_):
        raise ValueError("no")

    result = run(suite, case, through_torch, theirs=broken)
    assert result.status == "PASS"
    assert result.data["cutile_python"] is None
    assert result.data["cutile_python_note"] == "ValueError: no"


def test_out_has_to_hold_the_result() -> None:
    suite = suites()["silu_and_mul"]
    case = next(case for case in suite.cases if case.id == "f16-64x512-out")
    result = run(suite, case, lambda suite, case, call: through_torch(suite, case, call).clone())
    assert result.reason == "the result is not in the memory of out="


def test_without_a_device_it_does_not_run() -> None:
    suite, case = softmax()
    result = run(suite, case, through_torch, device=Device("", reason="no CUDA device: none"))
    assert (result.status, result.reason) == ("NOT-RUN", "no CUDA device: none")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ("softmax: x has extent 2147483648 on axis 0, outside of 0..2147483647", "PASS"),
        ("something else", "FAIL"),
        (None, "FAIL"),
    ],
)
def test_refusals(error: str | None, status: str) -> None:
    suite = suites()["softmax"]
    case = next(case for case in suite.cases if case.id == "f16-rows-beyond-i32")

    class Ours:
        def refuse(self, suite, call, arch):
            assert call.args[0].is_meta
            if error:
                raise ValueError(error)

    assert numerics.check(Ours(), lambda: None, suite, case, Device(""), "sm_90", 0).status == status


def test_inputs_are_the_same_for_the_same_seed_and_have_the_layout() -> None:
    suite = suites()["softmax"]
    for case in suite.cases:
        if case.layout == "contiguous" or case.raises:
            continue
        (x,), (y,) = (suite.inputs(case, "cpu", case.seed(3)).args for _ in range(2))
        assert torch.equal(x, y)
        assert tuple(x.shape) == case.shape
        assert (x.data_ptr() % 16 != 0) == (case.layout == "offset")
        assert x.is_contiguous() == (case.layout == "offset")
