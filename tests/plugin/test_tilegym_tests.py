# SPDX-License-Identifier: MIT
"""Re-aiming TileGym's tests, on a small imitation of how they choose backends."""

from __future__ import annotations

import json

import pytest

from pytest_cutile_rs.tilegym_tests import reaim

CONFTEST = """
import pytest
import torch

def pytest_addoption(parser):
    major, minor = torch.cuda.get_device_capability("cuda")
    parser.addoption("--arch", default=f"sm{major}{minor}")

@pytest.fixture
def arch(request):
    return request.config.getoption("--arch")
"""

TORCH = """
from types import SimpleNamespace
NAME = "fake"

def _no_device(device=None):
    raise RuntimeError("no NVIDIA driver")

cuda = SimpleNamespace(is_available=lambda: AVAILABLE, get_device_capability=CAPABILITY)
"""

TESTS = """
import os
import pytest
import torch

BACKENDS = ["cutile", "triton", "cutile-rs"]
ROWS = [("cutile", 1), ("cutile-rs", 1), ("cutile", 2)]

class TestOp:
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_op(self, backend, arch):
        assert (backend, arch) == ("cutile_rs", "sm90")
        assert os.environ["DISABLE_FALLBACK"] == "1"

    @pytest.mark.parametrize("use_tma", [False] if torch.cuda.get_device_capability()[0] == 8 else [True])
    @pytest.mark.parametrize("framework", [*BACKENDS, "pytorch"])
    def test_perf(self, framework, use_tma):
        assert framework in ("cutile_rs", "pytorch")
        assert use_tma

    @pytest.mark.parametrize("backend, size", ROWS, ids=[f"{name}-size={size}" for name, size in ROWS])
    def test_composite(self, backend, size):
        assert backend == "cutile_rs"

    @pytest.mark.parametrize("backend", [pytest.param("cutile", id="cutile-special"), pytest.param("triton")])
    def test_param(self, backend):
        assert backend == "cutile_rs"

    @pytest.mark.parametrize("size", [1, 2])
    def test_other(self, size):
        assert FAILING != size
"""

RAN = [
    "test_op.py::TestOp::test_op[cutile_rs]",
    "test_op.py::TestOp::test_perf[cutile_rs-True]",
    "test_op.py::TestOp::test_perf[pytorch-True]",
    "test_op.py::TestOp::test_composite[cutile_rs-size=1]",
    "test_op.py::TestOp::test_composite[cutile_rs-size=2]",
    "test_op.py::TestOp::test_param[cutile_rs-special]",
    "test_op.py::TestOp::test_other[1]",
    "test_op.py::TestOp::test_other[2]",
]


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """A folder of tests in TileGym's manner, and a torch of which this test decides whether it has a device."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    fake = pytester.mkdir("fakes")
    monkeypatch.setenv("PYTHONPATH", str(fake))
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    tests = pytester.mkdir("theirs")
    (tests / "conftest.py").write_text(CONFTEST)

    def run(*arguments: str, device: bool = True, failing: int = 0) -> pytest.RunResult:
        capability = "lambda device=None: (9, 0)" if device else "_no_device"
        (fake / "torch.py").write_text(TORCH.replace("AVAILABLE", str(device)).replace("CAPABILITY", capability))
        (tests / "test_op.py").write_text(TESTS.replace("FAILING", str(failing)) + run.extra)
        return pytester.runpytest_subprocess(*arguments, "-p", "no:cacheprovider")

    run.extra = ""
    return run


def test_backends_are_replaced_and_others_dropped(suite, pytester: pytest.Pytester) -> None:
    result = suite("--tilegym-tests", "theirs", "-v")
    result.assert_outcomes(passed=8)
    assert result.ret == 0
    found = [line.split(" ")[0].removeprefix("theirs/") for line in result.outlines if " PASSED" in line]
    assert found == RAN
    result.stdout.fnmatch_lines(
        ["TileGym's tests: 8 passed, 0 failed, 0 skipped", "VERDICT: PASS passed: 8 of TileGym*"]
    )
    written = json.loads((pytester.path / ".cutile_rs" / "summary.json").read_text())
    assert written["tilegym_tests"] == {"passed": 8, "failed": [], "skipped": {}}


def test_one_file_with_an_equals_sign(suite) -> None:
    suite("--tilegym-tests=theirs/test_op.py").assert_outcomes(passed=8)


def test_a_failing_one_fails_the_run(suite) -> None:
    result = suite("--tilegym-tests", "theirs", failing=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["VERDICT: FAIL failed: 1 of TileGym's tests"])


def test_what_we_refuse_is_a_failure_and_not_a_skip(suite) -> None:
    suite.extra = (
        "def test_f8():\n"
        "    from tilegym_rs_backend.errors import LaunchError\n"
        "    raise LaunchError('a has dtype f8', rc=-2)\n"
    )
    suite("--tilegym-tests", "theirs").assert_outcomes(passed=8, failed=1)


BY_NAME = """
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("transposed", [False, True])
def test_by_name(backend, transposed):
    if backend == "cutile" and transposed:
        pytest.skip("cutile cannot")
    if backend == "cutile":
        if transposed:
            pytest.skip("nor that")
    if backend != "cutile":
        pytest.skip("what other backends have not")
    if backend == "cutile":
        raise AssertionError("what the test does for cutile alone")
    used = "cutile's" if backend == "cutile" else "ours"
    assert used == "ours" and backend != "cutile" and backend != "triton"
    assert backend in {"cutile_rs"} and backend not in {"cutile"} and backend not in ["cutile"]
    assert {"cutile": 1, "cutile_rs": 2}[backend] == 2 and f"{backend}" == "cutile_rs"
"""


def test_what_a_test_skips_for_cutile_by_name_it_skips_for_ours_and_does_nothing_else(suite) -> None:
    suite.extra = BY_NAME
    result = suite("--tilegym-tests", "theirs", "-rs")
    result.assert_outcomes(passed=9, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*cutile cannot*"])


def test_without_a_device_all_are_collected_and_skipped_and_the_run_fails(suite) -> None:
    result = suite("--tilegym-tests", "theirs", "-rs", device=False)
    result.assert_outcomes(skipped=8)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["NOTHING CHECKED: none of TileGym's tests ran", "*no CUDA device*"])


def test_under_xdist(suite) -> None:
    pytest.importorskip("xdist")
    result = suite("--tilegym-tests", "theirs", "-n", "2")
    result.assert_outcomes(passed=8)
    assert result.ret == 0


def test_tests_elsewhere_are_left_alone(suite, pytester: pytest.Pytester) -> None:
    mine = "@pytest.mark.parametrize('backend', ['cutile'])\ndef test_mine(backend):\n    assert backend == 'cutile'\n"
    pytester.path.joinpath("test_mine.py").write_text(f"import pytest\n{mine}")
    suite("--tilegym-tests", "theirs", "test_mine.py").assert_outcomes(passed=9)


def test_reaim_leaves_other_marks_alone() -> None:
    for mark in (pytest.mark.slow.mark, pytest.mark.parametrize("size", [1]).mark):
        assert reaim(mark) is mark


def test_reaim_understands_keyword_arguments() -> None:
    mark = pytest.mark.parametrize(argnames="backend", argvalues=["cutile"], ids=str).mark
    assert reaim(mark).args == ("backend", ["cutile_rs"])
    assert reaim(mark).kwargs == {"ids": str}
