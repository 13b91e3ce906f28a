# SPDX-License-Identifier: MIT
"""The numerics check over torch stand-ins for both sides, and the case files' own inputs and references."""

from __future__ import annotations

import dataclasses
import threading

import pytest
import torch

from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.checks import judge
from pytest_cutile_rs.checks import numerics
from pytest_cutile_rs.checks.arguments import copied
from pytest_cutile_rs.checks.arguments import modified
from pytest_cutile_rs.checks.arguments import tensors
from pytest_cutile_rs.checks.comparator import Comparison
from pytest_cutile_rs.checks.judge import several
from pytest_cutile_rs.peers.base import PeerFault
from pytest_cutile_rs.peers.base import PeerRun
from pytest_cutile_rs.size import size_of
from pytest_cutile_rs.suites import suites
from tilegym_rs_backend.registration import native_ops

CPU = Device("cpu")
SMALL = [
    (suite, case)
    for suite in (suites()[name] for name in native_ops())
    for case in suite.cases
    if not case.raises and max(case.shape) <= 1100 and suite.bytes_moved(case) < 1 << 21
]


class Sides:
    """Both sides: ours does what ``run`` does, theirs what torch does."""

    def __init__(self, run, there: bool = True) -> None:
        self.run = run
        self.there = there
        self.case = None

    def call(self, suite, call, tuned=True):
        return self.run(suite, self.case, call)

    def available(self):
        return None

    def kind(self, op):
        return "native" if self.there else ""

    def execute(self, suite, case, arch, seed):
        call = suite.inputs(case, "cpu", case.seed(seed))
        before = copied(call)
        result = self.run(suite, case, call)
        return PeerRun(suite.outputs(case, call, result), modified=tuple(modified(suite, before, call)))


def through_torch(suite, case, call):
    """What a right kernel does: compute wide, round once, into fresh memory or out=."""
    wide = suite.torch(case, dataclasses.replace(call, args=tuple(one.float() for one in call.args)))
    out = call.kwargs.get("out")
    if out is None:
        out = torch.empty(wide.shape, dtype=call.args[0].dtype)
    return out.copy_(wide)


def rightly(suite, case, call):
    """What a right kernel of any op does: the reference, rounded once, into fresh memory, out=, or what it works on."""
    wide = several(suite.reference(case, copied(call)))
    rounded = [one.to(getattr(torch, TORCH_DTYPES[suite.dtype_of(case, n)])) for n, one in enumerate(wide)]
    if "out" in call.kwargs:
        rounded[0] = call.kwargs["out"].copy_(rounded[0])
    for result in (rounded[0], tuple(rounded)):
        outputs = suite.outputs(case, call, result)
        if len(outputs) == len(rounded):
            break
    arguments = {id(tensor) for _, _, tensor in tensors(call)}
    for output, one in zip(outputs, rounded, strict=True):
        if id(output) in arguments and not torch.equal(output.nan_to_num(), one.nan_to_num()):
            output.copy_(one)
    return result


def run(suite, case: Case, ours, theirs=through_torch, device: Device = CPU, there: bool = True):
    one, other = Sides(ours, there), Sides(theirs)
    one.case = other.case = case
    return numerics.check(one, lambda: other, suite, case, device, "sm_90", 0)


@pytest.mark.parametrize(("suite", "case"), SMALL, ids=[f"{case.op}-{case.id}" for _, case in SMALL])
def test_a_right_result_passes_every_small_case(suite, case: Case) -> None:
    result = run(suite, case, rightly, theirs=rightly)
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

    assert "guard bytes after the output of torch.empty" in run(suite, case, careless).reason


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


def test_the_peers_first_imports_are_made_before_both_sides_run_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(Sides, "available", lambda self: asked.append(threading.current_thread()))
    assert run(*softmax(), through_torch).status == "PASS"
    assert asked[0] is threading.current_thread()


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
        def kind(self, op):
            return "native"

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


def wide():
    suite = suites()["softmax"]
    return suite, next(case for case in suite.cases if case.id == "f32-256x256")


def off_by(factor: float):
    """A side that is wrong by a little: every element times ``factor``."""
    return lambda *them: through_torch(*them).mul_(factor)


def last_bit(*them):
    """A side whose every element is the next one."""
    result = through_torch(*them)
    result.view(torch.int32).add_(1)
    return result


def test_an_error_well_above_the_peers_fails_even_within_tolerance() -> None:
    suite, case = wide()
    assert run(suite, case, through_torch).status == "PASS"
    result = run(suite, case, off_by(1 + 9e-6))
    assert result.status == "FAIL"
    theirs = result.data["cutile_python"]["scaled_ulp"]  # torch's exp, which is not the same on every processor
    allowed = f"at most {1.5 * theirs:.3g} is allowed: 1.5 times cuTile Python's {theirs:.3g} (with 0 for its"
    assert f"scaled ulp, {allowed}" in result.reason
    assert result.data["ours"]["bad"] == 0
    assert result.data["error_ratio"] > 1.5
    both = run(suite, case, off_by(1 + 9e-6), theirs=off_by(1 + 9e-6))
    assert both.status == "PASS"
    assert "; cuTile Python's max error" in both.reason


def test_a_last_bit_is_not_called_worse() -> None:
    suite, case = wide()
    assert run(suite, case, last_bit).status == "PASS"


@pytest.mark.parametrize(
    ("ours", "theirs", "kinds", "dtype", "fails"),
    [
        (1.9, 0.0, 0, torch.float32, False),
        (2.1, 0.0, 0, torch.float32, True),
        (4.4, 3.0, 0, torch.float32, False),
        (4.6, 3.0, 0, torch.float32, True),
        (8.9, 2.0, 2, torch.float32, False),  # approximate operations count 2 ulp of f32 each
        (9.1, 2.0, 2, torch.float32, True),
        (4.6, 3.0, 2, torch.float16, True),  # which are next to nothing in f16
        (99.0, 0.0, 0, torch.int32, False),
    ],
)
def test_what_counts_as_worse(ours: float, theirs: float, kinds: int, dtype, fails: bool) -> None:
    def side(error: float) -> judge.Judged:
        return judge.Judged((torch.zeros(1, dtype=dtype),), (Comparison((), scaled=error),), ())

    assert bool(judge.worse(side(ours), side(theirs), kinds)) == fails


class Split(type(suites()["softmax"])):
    """Two outputs and an argument that the op writes to."""

    name = "split"
    in_place = ("seen",)
    cases = (Case("split", "f32-4x4", "f32", (4, 4)),)

    def inputs(self, case, device, seed):
        x = torch.arange(16, dtype=torch.float32).view(4, 4)
        return Call((x, [x + 1]), {"seen": torch.zeros(4, dtype=torch.int64)})

    def reference(self, case, call):
        call.args[0].mul_(2)  # the reference may spoil its inputs: they are copies
        return call.args[0].double(), call.kwargs["seen"] + 1

    def outputs(self, case, call, result):
        return result, call.kwargs["seen"]

    def dtype_of(self, case, output=0):
        return ("f32", "i64")[output]

    def tolerance_for(self, case, output=0):
        return (Tolerance(1e-6, 0.0, "exact"), Tolerance(0.0, 0.0, "integers"))[output]


def doubled(suite, case, call):
    call.kwargs["seen"] += 1
    return torch.empty_like(call.args[0]).copy_(call.args[0] * 2)


def test_every_output_is_judged_and_an_in_place_argument_may_change() -> None:
    suite = Split()
    [case] = suite.cases
    result = run(suite, case, doubled, theirs=doubled)
    assert result.status == "PASS", result.details

    def miscounted(suite, case, call):
        call.kwargs["seen"][2] += 1
        return doubled(suite, case, call)

    result = run(suite, case, miscounted, theirs=doubled)
    assert result.reason.startswith("output 1: 1 of 4 elements (25 %): differ by more than 0")

    def nested(suite, case, call):
        call.args[1][0][0, 0] = 9
        return doubled(suite, case, call)

    assert run(suite, case, nested, theirs=doubled).reason == "input 1[0] was modified"


def test_a_pair_has_to_be_equal_bit_for_bit(monkeypatch) -> None:
    suite, case = wide()
    monkeypatch.setattr(type(suite), "bit_equal", True)
    assert run(suite, case, through_torch).status == "PASS"
    result = run(suite, case, last_bit)
    assert result.status == "FAIL"
    assert "elements differ from cuTile Python's, which may not be" in result.reason

    def fails(*_):
        raise ValueError("no")

    assert run(suite, case, through_torch, theirs=fails).reason == "nothing to be equal to: ValueError: no"


def test_without_a_kernel_of_ours_the_peer_is_judged_alone() -> None:
    suite, case = softmax()
    result = run(suite, case, None, there=False)
    assert (result.status, result.peer_only) == ("PASS", True)
    assert result.reason.startswith("cuTile Python only: max error ")
    wrong = run(suite, case, None, theirs=off_by(1.1), there=False)
    assert (wrong.status, wrong.peer_only) == ("FAIL", True)
    assert wrong.reason.startswith("cuTile Python only: ")
    assert "error above" in wrong.reason

    def careless(suite, case, call):
        call.args[0][7, 0] += 1
        return through_torch(suite, case, call)

    undeclared = run(suite, case, None, theirs=careless, there=False)
    assert undeclared.status == "FAIL"
    assert "input 0 was modified" in undeclared.details

    def racing(*_):
        raise PeerFault("race", "two blocks write one element")

    fault = run(suite, case, None, theirs=racing, there=False)
    assert (fault.status, fault.data["cutile_python_fault"]) == ("FAIL", "race")
    refusal = next(case for case in suite.cases if case.raises)
    assert run(suite, refusal, None, there=False).reason == "no Rust kernel yet"


def test_a_peers_fault_is_told_with_its_kind_and_fails_nothing() -> None:
    suite, case = softmax()

    def racing(*_):
        raise PeerFault("race", "two blocks write one element")

    result = run(suite, case, through_torch, theirs=racing)
    assert result.status == "PASS"
    assert result.data["cutile_python_fault"] == "race"
    assert result.reason.endswith("cuTile Python: two blocks write one element")


def test_a_large_case_is_not_executed() -> None:
    suite = suites()["matmul"]
    case = next(case for case in suite.cases if case.shape[0] == 8192)
    assert size_of(suite, case) == "gpu"
    result = run(suite, case, None, device=Device("cpu", reason="no CUDA device: a test"))
    assert result.status == "NOT-RUN"
    assert result.reason == "too large to execute on a CPU; no CUDA device: a test"
