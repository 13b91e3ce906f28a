# SPDX-License-Identifier: MIT
from __future__ import annotations

import math

import pytest
import torch

from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.checks.comparator import compare
from pytest_cutile_rs.checks.guard import BAND
from pytest_cutile_rs.checks.guard import guarded

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


def test_integers_are_equal_or_wrong() -> None:
    got, want = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32), torch.tensor([[1, 2], [3, 4]])
    assert compare(got, want, TOLERANCE).ok
    want[1, 0] = 9
    found = compare(got, want, TOLERANCE)
    assert "1 of 4 integers (25 %) differ" in found.message()
    assert "[1, 0]: 3, 9" in found.message()
    assert (found.max_abs, found.bad) == (6.0, 1)


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
    assert check([1.0], [1.0]).figures() == {"max_abs": 0.0, "max_rel": 0.0, "max_ulp": 0.0, "bad": 0, "total": 1}


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


def test_guard_bands_see_stray_writes_and_unwritten_elements() -> None:
    x = torch.randn(4, 5).t()
    with guarded() as bands:
        y = torch.empty_like(x)
        z = x.new_empty((3,))
    assert y.stride() == x.stride()
    assert bool(torch.isnan(y).all())
    assert bands.broken() == []
    torch.as_strided(z, (1,), (1,), z.storage_offset() + 3).fill_(0.0)
    assert bands.broken() == [f"1 of {BAND} guard elements after the output of Tensor.new_empty were overwritten"]
