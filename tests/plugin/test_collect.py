# SPDX-License-Identifier: MIT
from __future__ import annotations

import dataclasses
import re

import pytest

from pytest_cutile_rs.size import CPU
from pytest_cutile_rs.size import EXECUTED_BYTES
from pytest_cutile_rs.size import EXECUTED_FLOPS
from pytest_cutile_rs.size import size_of
from pytest_cutile_rs.suites import suites
from tilegym_rs_backend.registration import native_ops

ID = re.compile(r"cutile_rs::(numerics|ir|sass|perf)::\w+\[[\w.\-]+\]")


def test_ids_are_ordered_unique_and_the_same_for_every_hash_seed(parity) -> None:
    runs = []
    for seed in ("0", "1", "2"):
        parity.monkeypatch.setenv("PYTHONHASHSEED", seed)
        runs.append(parity.ids("--cutile-rs", "--cutile-rs-ops", "alpha,beta,softmax,matmul,silu_and_mul"))
    assert runs[0] == runs[1] == runs[2]
    assert all(ID.fullmatch(name) for name in runs[0])
    assert len(set(runs[0])) == len(runs[0])
    checks = [name.split("::")[1] for name in runs[0]]
    assert checks == sorted(checks, key=["numerics", "ir", "sass", "perf"].index)


def test_ids_do_not_depend_on_a_gpu(parity) -> None:
    without = parity("--cutile-rs", "--collect-only", "-q").outlines
    with_one = parity("--cutile-rs", "--collect-only", "-q", device="cuda").outlines
    assert [line for line in without if "::" in line] == [line for line in with_one if "::" in line]


@pytest.mark.parametrize(
    ("argument", "count"),
    [
        ("cutile_rs", 28),
        ("cutile_rs::ir", 8),
        ("cutile_rs::ir::alpha", 4),
        ("cutile_rs::ir::alpha[f16-2x8]", 1),
        ("../somewhere/cutile_rs::perf::beta", 2),
    ],
)
def test_ids_and_their_prefixes_are_arguments(parity, argument: str, count: int) -> None:
    assert len(parity.ids(argument)) == count


def test_several_ids(parity) -> None:
    assert parity.ids("cutile_rs::sass::beta[f32-2x8]", "cutile_rs::ir::alpha[f16-2x8]") == [
        "cutile_rs::ir::alpha[f16-2x8]",
        "cutile_rs::sass::beta[f32-2x8]",
    ]


@pytest.mark.parametrize("argument", ["cutile_rs::ir::alp", "cutile_rs::speed", "cutile_rs::ir::alpha[f16-9x9]"])
def test_an_id_that_names_nothing_is_a_usage_error(parity, argument: str) -> None:
    result = parity(argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*not found: {argument.replace('[', '[[]')}*"])


def test_without_a_path_nothing_else_runs_and_with_one_both_do(parity) -> None:
    parity.pytester.makepyfile("def test_mine(): pass")
    alone = parity("--cutile-rs", "-v", "--cutile-rs-checks", "ir")
    alone.assert_outcomes(passed=8)
    both = parity("--cutile-rs", "-v", "--cutile-rs-checks", "ir", ".")
    both.assert_outcomes(passed=9)
    one = parity("cutile_rs::ir::alpha[f16-2x8]", "-v", "test_without_a_path_nothing_else_runs_and_with_one_both_do.py")
    one.assert_outcomes(passed=2)


def test_testpaths_are_not_run(parity) -> None:
    parity.pytester.makeini("[pytest]\ntestpaths = mine")
    parity.pytester.mkdir("mine").joinpath("test_mine.py").write_text("def test_mine(): pass\n")
    parity("--cutile-rs", "--cutile-rs-checks", "ir").assert_outcomes(passed=8)


def test_k_and_deselect(parity) -> None:
    assert len(parity.ids("--cutile-rs", "-k", "beta and f16 and ir")) == 2
    assert len(parity.ids("--cutile-rs", "--deselect", "cutile_rs::ir::alpha")) == 24


def test_lf_runs_the_failed_one_alone(parity) -> None:
    first = parity("--cutile-rs", "--cutile-rs-checks", "ir", answers={"ir:beta[f16-2x8]": "FAIL"})
    first.assert_outcomes(passed=7, failed=1)
    second = parity("--cutile-rs", "--cutile-rs-checks", "ir", "--lf")
    second.assert_outcomes(passed=1, deselected=7)


def test_x_stops_and_the_report_says_incomplete(parity) -> None:
    result = parity("--cutile-rs", "--cutile-rs-checks", "ir", "-x", answers={"ir:alpha[f32-4x8]": "FAIL"})
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["the run is incomplete*"])


def test_works_without_cache_and_with_importlib_mode(parity) -> None:
    result = parity("--cutile-rs", "-p", "no:cacheprovider", "--import-mode=importlib", "--cutile-rs-checks", "ir")
    result.assert_outcomes(passed=8)


def test_malformed_case_ids_are_refused(parity) -> None:
    text = parity.pytester.path.joinpath("conftest.py").read_text()
    parity.pytester.path.joinpath("conftest.py").write_text(text.replace("{rows}x8", "{rows} x 8"))
    result = parity("--cutile-rs")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*suite alpha: case ids not unique or malformed*"])


def test_every_built_in_suite_has_quick_cases_that_a_cpu_can_run() -> None:
    for name, suite in suites().items():
        quick = [case for case in suite.cases if case.quick]
        assert 1 <= len(quick) <= 8, name
        assert any(size_of(suite, case) == CPU for case in quick), name
        assert {case.op for case in suite.cases} == {name}
        assert all(suite.bytes_moved(case) > 0 or 0 in case.shape or case.raises for case in suite.cases), name


def test_the_suites_of_native_ops_are_big() -> None:
    for name in native_ops():
        suite = suites()[name]
        assert len(suite.cases) >= 40, name
        assert sum(case.quick for case in suite.cases) >= 3, name
        dtypes = {case.dtype for case in suite.cases}
        assert dtypes > {"f16", "bf16"} or dtypes == set(suite.tolerance) == {"bf16"}, name
        assert any(case.raises for case in suite.cases)
        assert any(0 in case.shape for case in suite.cases)


@pytest.mark.parametrize("name", sorted(suites()))
def test_every_dtype_layout_and_kind_of_data_has_a_case_that_a_cpu_can_execute(name: str) -> None:
    suite = suites()[name]
    cases = [case for case in suite.cases if not case.raises]
    wanted = {(case.dtype, case.layout, case.data) for case in cases}
    there = {(case.dtype, case.layout, case.data) for case in cases if size_of(suite, case) == CPU}
    assert wanted - there == set()


@pytest.mark.parametrize("name", native_ops())
def test_at_least_forty_cases_are_of_cpu_size(name: str) -> None:
    suite = suites()[name]
    assert sum(size_of(suite, case) == CPU for case in suite.cases if not case.raises) >= 40


def test_the_size_follows_bytes_and_operations() -> None:
    class Sized(type(suites()["softmax"])):
        moved = computed = 0

        def bytes_moved(self, case):
            return self.moved

        def flops(self, case):
            return self.computed

    suite = Sized()
    case = suite.cases[0]
    assert size_of(suite, case) == "cpu"
    suite.moved = EXECUTED_BYTES + 1
    assert size_of(suite, case) == "gpu"
    assert size_of(suite, dataclasses.replace(case, raises="refused")) == "cpu"
    suite.moved, suite.computed = 0, EXECUTED_FLOPS + 1
    assert size_of(suite, case) == "gpu"
