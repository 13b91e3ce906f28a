# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.checks import comparator
from pytest_cutile_rs.checks.comparator import compare

NAN, INF = math.nan, math.inf
TOLERANCE = Tolerance(1e-3, 1e-6, "a test")


def check(got: list[float], want: list[float], dtype: torch.dtype = torch.float16, **more: bool):
    return compare(torch.tensor(got, dtype=dtype), torch.tensor(want, dtype=torch.float64), TOLERANCE, **more)


@pytest.mark.parametrize(
    ("got", "want", "problem"),
    [
        ([0.0, 1.0], [NAN, 1.0], "1 of 2 elements (50 %): NaN where"),
        ([NAN, 1.0], [0.0, 1.0], "1 of 2 elements (50 %): NaN where"),
        ([INF, 1.0], [-INF, 1.0], "an infinity is missing"),
        ([60000.0, 1.0], [INF, 1.0], "an infinity is missing"),
        ([INF, 1.0], [1.0, 1.0], "an infinity is missing"),
        ([INF, 1.0], [NAN, 1.0], "NaN where"),
        ([1.0, 1.1], [1.0, 1.0], "error above 1e-06 + 0.001 * |want| (a test)"),
        ([INF, 1.0], [80000.0, 1.0], ""),
        ([INF, 65504.0], [65510.0, 65530.0], ""),
        ([NAN, 1.0], [NAN, 1.0005], ""),
        ([-INF, INF], [-INF, INF], ""),
    ],
)
def test_special_values_are_exact_requirements(got: list[float], want: list[float], problem: str) -> None:
    found = check(got, want)
    assert found.ok == (problem == "")
    assert problem in found.message()


def test_an_all_nan_reference_has_no_information_unless_the_case_says_so() -> None:
    assert "no information" in check([NAN], [NAN]).message()
    assert check([NAN], [NAN], no_information_ok=True).ok


def test_an_empty_comparison_is_an_error_unless_the_case_is_about_it() -> None:
    assert "nothing was compared" in check([], []).message()
    assert check([], [], empty_ok=True).ok


def test_shape_and_dtype_are_compared_first() -> None:
    want = torch.zeros(2, 3, dtype=torch.float64)
    assert "shape (3, 2), want (2, 3)" in compare(torch.zeros(3, 2), want, TOLERANCE).message()
    found = compare(torch.zeros(2, 3), want, TOLERANCE, dtype=torch.float16)
    assert "dtype torch.float32, want torch.float16" in found.message()


def test_the_message_shows_the_first_bad_elements_with_all_errors() -> None:
    got = torch.zeros(4, 5, dtype=torch.float32)
    got[2, 3], got[3, 1] = 0.5, -2.0
    found = compare(got, torch.zeros(4, 5, dtype=torch.float64) + 1e-9, TOLERANCE)
    assert (found.bad, found.total) == (2, 20)
    assert found.max_abs == pytest.approx(2.0)
    assert "2 of 20 elements (10 %)" in found.message()
    assert "[2, 3]: 0.5, 1e-09, 0.5, 5e+08" in found.message()


def test_ulp_counts_in_the_results_dtype() -> None:
    assert check([1.0 + 2**-10], [1.0]).max_ulp == pytest.approx(1.0)
    assert check([1.0 + 2**-7], [1.0], torch.bfloat16).max_ulp == pytest.approx(1.0)


def test_figures_are_json() -> None:
    assert check([1.0], [1.0]).figures() == {
        "max_abs": 0.0,
        "max_rel": 0.0,
        "max_ulp": 0.0,
        "scaled_ulp": 0.0,
        "bad": 0,
        "total": 1,
    }


def test_a_sum_in_bf16_is_told_from_one_in_fp32() -> None:
    from pytest_cutile_rs.suites import suites

    suite = suites()["matmul"]
    case = next(case for case in suite.cases if case.data == "alternating")
    call = suite.inputs(case, "cpu", 0)
    a, b = call.args
    want = suite.reference(case, call)
    tolerance = suite.tolerance_for(case)
    assert compare((a.float() @ b.float()).bfloat16(), want, tolerance).ok
    total = torch.zeros(want.shape, dtype=torch.bfloat16)
    for start in range(0, a.shape[1], 64):
        total += (a[:, start : start + 64].float() @ b[start : start + 64].float()).bfloat16()
    assert not compare(total, want, tolerance).ok


@pytest.mark.parametrize(
    ("got", "want", "atol", "bad"),
    [
        (torch.tensor([1, 2, 3]), torch.tensor([1, 2, 3]), 0.0, 0),
        (torch.tensor([1, 2, 4]), torch.tensor([1, 2, 3]), 0.0, 1),
        (torch.tensor([1, 2, 4], dtype=torch.int32), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), 1.0, 0),
        (torch.tensor([2**60 + 1]), torch.tensor([2**60]), 0.0, 1),
        (torch.tensor([True, False]), torch.tensor([True, True]), 0.0, 1),
        (torch.tensor([1]), torch.tensor([NAN], dtype=torch.float64), 5.0, 1),
    ],
)
def test_integers_are_compared_exactly_or_within_an_absolute_tolerance(got, want, atol: float, bad: int) -> None:
    found = compare(got, want, Tolerance(0.0, atol, "a test"))
    assert (found.bad, found.ok) == (bad, bad == 0)
    assert bad == 0 or "differ by more than" in found.message()


def test_eight_bit_floats() -> None:
    want = torch.tensor([1.0, NAN, 448.0], dtype=torch.float64)
    assert compare(want.to(torch.float8_e4m3fn), want, TOLERANCE).ok
    off = torch.tensor([1.125, NAN, 448.0]).to(torch.float8_e4m3fn)
    found = compare(off, want, TOLERANCE)
    assert (found.bad, found.max_ulp) == (1, 1.0)


def test_scaled_ulp_does_not_grow_below_where_the_tolerance_turns_absolute() -> None:
    tiny = check([1e-6], [1.5e-6])
    assert tiny.max_ulp == pytest.approx(8.4, rel=0.1)
    assert tiny.scaled == pytest.approx(5e-7 / (2**-10 * 2**-10), rel=0.1)  # the unit of 1e-6 / 1e-3
    assert check([1.0 + 2**-10], [1.0]).scaled == pytest.approx(1.0)


@pytest.mark.parametrize("part", [1, 5, 64])
def test_a_comparison_in_pieces_is_the_whole_one(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    generator = torch.Generator().manual_seed(3)
    want = torch.randn(7, 3, 11, generator=generator, dtype=torch.float64)
    got = (want + 1e-3 * torch.randn(7, 3, 11, generator=generator)).half().transpose(0, 2).contiguous().transpose(0, 2)
    got[6, 2, 10], got[3, 0, 4], want[2, 1, 1], got[5, 1, 7] = torch.nan, torch.inf, torch.nan, 9.0
    monkeypatch.setattr(comparator, "_SHOWN", 1000)
    whole = compare(got, want, Tolerance(1e-3, 1e-3, "a test"))
    assert whole.bad > 4
    monkeypatch.setattr(comparator, "_PART", part)
    split = compare(got, want, Tolerance(1e-3, 1e-3, "a test"))
    assert dataclasses.replace(split, rows=()) == dataclasses.replace(whole, rows=())
    assert sorted(split.rows) == sorted(whole.rows)
