# SPDX-License-Identifier: MIT
from __future__ import annotations

import re

import pytest

OPTIONS = [
    "--cutile-rs",
    "--cutile-rs-quick",
    "--cutile-rs-save",
    "--cutile-rs-ops",
    "--cutile-rs-dtypes",
    "--cutile-rs-checks",
    "--cutile-rs-arch",
    "--cutile-rs-out",
    "--cutile-rs-seed",
    "--cutile-rs-threshold",
    "--cutile-rs-ambiguous",
    "--cutile-rs-protocol",
    "--cutile-rs-timer",
    "--cutile-rs-self-check",
    "--cutile-rs-shard",
    "--cutile-rs-perf-budget",
    "--cutile-rs-min-cases",
    "--cutile-rs-list",
    "--tilegym-tests",
]


def test_nothing_is_imported_without_the_flag(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import sys
        def pytest_unconfigure():
            heavy = {"torch", "cffi", "numpy", "tilegym", "tilegym_rs_backend", "pytest_cutile_rs.run"}
            print("IMPORTED", sorted(heavy & set(sys.modules)))
        """
    )
    pytester.makepyfile("def test_one(): pass")
    result = pytester.runpytest_subprocess("-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*IMPORTED []"])
    result.stdout.no_fnmatch_line("*cutile*")
    assert not (pytester.path / ".cutile_rs").exists()


def test_collection_imports_no_torch(parity) -> None:
    parity.pytester.path.joinpath("watch.py").write_text(
        "import sys\n"
        "def pytest_unconfigure():\n"
        "    print('IMPORTED', sorted({'torch', 'cffi', 'numpy', 'tilegym'} & set(sys.modules)))\n"
    )
    parity.monkeypatch.setenv("PYTHONPATH", str(parity.pytester.path))
    result = parity("-p", "watch", "--cutile-rs", "--collect-only", "-q", ops="")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["cutile_rs::ir::softmax[[]f16-256x2048[]]", "*IMPORTED []"])


def test_help_names_each_option_with_its_default(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("--help")
    text = re.sub(r"\s+", " ", "\n".join(result.outlines))
    options, ini = text.split("[pytest] configuration options", 1)
    group = options[options.index("parity of the Rust kernels") :]
    described = {entry.split("=")[0].split(" ")[0]: entry for entry in re.split(r" --(?=cutile-rs|tilegym)", group)[1:]}
    for option in OPTIONS:
        assert "(default:" in described[option[2:]], option
        if option != "--cutile-rs-list":
            assert f" {option[2:].replace('-', '_')} (" in ini, option


def test_the_plugin_can_be_switched_off(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_subprocess("-p", "no:cutile_rs", "--cutile-rs")
    result.stderr.fnmatch_lines(["*unrecognized arguments: --cutile-rs*"])


def test_ini_enables_and_the_command_line_wins(parity) -> None:
    parity.pytester.makeini("[pytest]\ncutile_rs = true\ncutile_rs_dtypes = f16\ncutile_rs_checks = ir")
    assert parity.ids() == [f"cutile_rs::ir::{op}[f16-{rows}x8]" for op in ("alpha", "beta") for rows in (2, 4)]
    assert parity.ids("--cutile-rs-dtypes", "f32", "--cutile-rs-quick") == [
        "cutile_rs::ir::alpha[f32-2x8]",
        "cutile_rs::ir::beta[f32-2x8]",
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--cutile-rs-dtypes", "f8"], "*--cutile-rs-dtypes: unknown f8; known are f32, f16, bf16, f8e4m3, *"),
        (["--cutile-rs-checks", "ir,speed"], "*--cutile-rs-checks: unknown speed; known are numerics, ir, sass, perf"),
        (["--cutile-rs-seed", "x"], "*--cutile-rs-seed: 'x' is not a number"),
        (["--cutile-rs-threshold", "nan"], "*--cutile-rs-threshold: nan is not finite"),
        (["--cutile-rs-perf-budget", "inf"], "*--cutile-rs-perf-budget: inf is not finite"),
        (["--cutile-rs-ambiguous", "warn"], "*--cutile-rs-ambiguous: unknown 'warn'; known are xfail, fail, pass"),
        (["--cutile-rs-protocol", "best"], "*--cutile-rs-protocol: unknown 'best'; known are best-of-4"),
        (["--cutile-rs-timer", "stopwatch"], "*--cutile-rs-timer: unknown 'stopwatch'; known are cupti, event"),
        (["--cutile-rs-self-check", "-1"], "*--cutile-rs-self-check: -1 is negative"),
        (["--cutile-rs-arch", "hopper"], "*--cutile-rs-arch: 'hopper' is no architecture; write it as sm_90"),
        (["--cutile-rs-out", "conftest.py"], "*--cutile-rs-out: */conftest.py is a file; name a folder"),
        (["--cutile-rs-threshold", "-1"], "*--cutile-rs-threshold: -1 is negative"),
        (["--tilegym-tests", "nowhere"], "*--tilegym-tests: nowhere does not exist"),
    ],
)
def test_bad_values_are_usage_errors(parity, arguments: list[str], text: str) -> None:
    result = parity("--cutile-rs", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([text])


def test_unknown_op_is_a_usage_error(parity) -> None:
    result = parity("--cutile-rs", ops="gamma")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--cutile-rs-ops: unknown gamma; known are alpha, *beta, *softmax*"])


def test_list_runs_nothing(parity) -> None:
    result = parity("--cutile-rs-list", answers={"ir": "raise"})
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        ["alpha[[]f32-4x8[]]  cpu  numerics,ir,sass,perf", "8 cases (8 of cpu size, 0 of gpu size), 28 checks"]
    )
    assert not (parity.pytester.path / ".cutile_rs").exists()
