# SPDX-License-Identifier: MIT
"""The fixture `cutile_rs_kernel`: the example of docs/porting.md runs, and what is wrong is found."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("cuda.tile")

import cuda.tile as ct

from pytest_cutile_rs.kernel_gate import KernelGate
from pytest_cutile_rs.timing.fake import FakeDevice
from pytest_cutile_rs.timing.fake import FakeTimer

PAGE = Path(__file__).parents[2] / "docs" / "porting.md"
EXAMPLE = re.search(r"```python\n# test_scale\.py\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


@pytest.fixture
def toolkit(monkeypatch):
    """cargo and toolkit, found too by a process that pytester gives another home."""
    from tilegym_rs_backend.errors import ToolchainError
    from tilegym_rs_backend.port.installed import check_cuda_tile
    from tilegym_rs_backend.toolchain.cargo import find_cargo
    from tilegym_rs_backend.toolchain.dirs import cache_dir
    from tilegym_rs_backend.toolchain.toolkit import find_toolkit

    for name, folder in (("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")):
        monkeypatch.setenv(name, os.environ.get(name, str(Path.home() / folder)))
    monkeypatch.setenv("TILEGYM_RS_CACHE_DIR", str(cache_dir()))
    try:
        check_cuda_tile()
        find_cargo()
        find_toolkit(headers=True)
    except ToolchainError as error:
        pytest.skip(str(error))


@pytest.mark.cargo
def test_the_example_of_the_page_passes(toolkit, pytester):
    pytester.makepyfile(test_scale=EXAMPLE)
    result = pytester.runpytest_subprocess("-s", "-n", "0", "test_scale.py")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*VERDICT: PASS BIT-EQUAL scale (numerics)",
            "VERDICT: PASS * scale (ir)",
            "VERDICT: PASS SASS-IDENTICAL * scale (sass)",
            "VERDICT: NOT-RUN device time needs tensors on a GPU: scale (perf)*",
            "*pub unsafe fn scale*",
        ]
    )


REFUSED = """
import cuda.tile as ct
import torch


@ct.kernel
def shown(x, BLOCK: ct.Constant[int]):
    tile = ct.load(x, index=(ct.bid(0),), shape=(BLOCK,))
    ct.printf("%f", ct.sum(tile, 0))


def test_shown(cutile_rs_kernel):
    cutile_rs_kernel(shown, (1,), (torch.zeros(64), 64))


def test_another_check(cutile_rs_kernel):
    cutile_rs_kernel(shown, (1,), (torch.zeros(64), 64), checks=("speed",))
"""


def test_a_refusal_fails_with_the_python_line(pytester):
    path = pytester.makepyfile(REFUSED)
    result = pytester.runpytest_subprocess("-n", "0", path)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            f"VERDICT: FAIL REFUSED {path}:8: tile_printf in kernel shown cannot be translated to Rust*(numerics)",
            "*ValueError: no check speed; known are numerics, ir, sass, perf",
        ]
    )


@pytest.mark.cargo
def test_a_wrong_translation_fails(toolkit, monkeypatch):
    """An entry that computes something else: both its numbers and its machine code give it away."""
    import torch

    from tilegym_rs_backend.port import ported

    @ct.kernel
    def doubled(out, x, BLOCK: ct.Constant[int]):
        ct.store(out, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(BLOCK,)) * 2.0)

    made = ported.translated

    def wrong(launch, **options):
        entry, text = made(launch, **options)
        assert "2f32" in text or "2.0f32" in text
        return entry, re.sub(r"\b2(\.0)?f32", "3.0f32", text)

    monkeypatch.setattr(ported, "translated", wrong)
    x, out = torch.randn(64), torch.empty(64)
    with pytest.raises(pytest.fail.Exception) as caught:
        KernelGate()(doubled, (1,), (out, x, 64))
    text = str(caught.value)
    assert "VERDICT: FAIL tensor 0: " in text
    assert "bytes differ: doubled (numerics)" in text
    assert "VERDICT: FAIL SASS-DIFFERENT" in text


def test_within_a_tolerance_numbers_may_differ():
    import torch

    from pytest_cutile_rs.case import Tolerance
    from pytest_cutile_rs.kernel_gate import _beyond
    from tilegym_rs_backend.port.bits import over_equal_memory

    out = torch.zeros(8)[::2]
    sides = (lambda: out.add_(1.0), lambda: out.add_(1.001))
    assert over_equal_memory([out], *sides) != []
    assert over_equal_memory([out], *sides, _beyond(Tolerance(0.0, 0.01, "test"))) == []
    [line] = over_equal_memory([out], *sides, _beyond(Tolerance(0.0, 1e-4, "test")))
    assert line.startswith("tensor 0: 4 of 4 elements")


@pytest.mark.parametrize(
    ("ours_us", "verdict", "ratio"), [(10.0, "PASS PASS t_py/t_rs 1.2", 1.25), (14.0, "FAIL FAIL t_py/t_rs 0.8", 0.89)]
)
def test_device_time_is_judged_by_the_gate(ours_us, verdict, ratio):
    gpu = FakeDevice(noise=0.01)
    gate = KernelGate(make_timer=lambda: FakeTimer(gpu), budget_s=1.0)
    sides = {"py": lambda: gpu.launch("theirs", us=12.5), "rs": lambda: gpu.launch("ours", us=ours_us)}
    found, measured = gate.timed("kernel", sides)
    gate.close()
    assert found.startswith(verdict)
    assert measured == pytest.approx(ratio, rel=0.02)


def test_no_clock_is_a_failure():
    from pytest_cutile_rs.timing import TimingUnavailable

    class NoTimer:
        def open(self):
            raise TimingUnavailable("no_cupti", "CUPTI is not installed")

    found, measured = KernelGate(make_timer=NoTimer).timed("kernel", {})
    assert found == "FAIL NO-DATA CUPTI is not installed:"
    assert measured is None
