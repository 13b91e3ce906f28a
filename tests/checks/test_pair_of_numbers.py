# SPDX-License-Identifier: MIT
"""The pair of kernels executed on the CPU: equal bit for bit, and told apart when one of them is changed."""

from __future__ import annotations

import pytest

from pytest_cutile_rs.backend import Device
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Call
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.case import Tolerance
from pytest_cutile_rs.cases._tensors import tensor
from pytest_cutile_rs.checks import numerics
from pytest_cutile_rs.peers.base import PeerRun

ARCH = "sm_90"
SCALE = 0.5
DATA = ("randn", "nan", "inf", "masked", "overflow")

pytestmark = pytest.mark.cargo


class OwnSoftmax(OpSuite):
    """softmax(x / 2) by rows."""

    name = "own_softmax"
    cases = tuple(
        Case("own_softmax", f"{dtype}-{columns}-{data}", dtype, (300, columns), data=data)
        for dtype, columns in (("f16", 100), ("f32", 128), ("bf16", 33))
        for data in DATA
    )
    tolerance = {"f32": Tolerance(1e-5, 1e-7, ""), "f16": Tolerance(1e-3, 1e-6, ""), "bf16": Tolerance(8e-3, 1e-6, "")}  # noqa: RUF012
    nan_policy = rounding_policy = "softmax's"
    bit_equal = True

    def inputs(self, case, device, seed):
        return Call((tensor(case.shape, case.dtype, device, seed, data=case.data),))

    def reference(self, case, call):
        return (SCALE * call.args[0].double()).softmax(-1)

    def torch(self, case, call):
        return (SCALE * call.args[0]).softmax(-1)

    def bytes_moved(self, case):
        return 2 * case.shape[0] * case.shape[1] * ITEMSIZE[case.dtype]

    def flops(self, case):
        return 5 * case.shape[0] * case.shape[1]


class Rust:
    """The Rust half, through its bytecode."""

    def __init__(self, library, kernel: str) -> None:
        self.library = library
        self.kernel = kernel

    def kind(self, op):
        return "native"

    def call(self, suite, call, tuned=True):
        import torch
        from crate import own_launch

        from tilegym_rs_backend.tile_ir.execute import run_launch

        [x] = call.args
        out = torch.empty_like(x)
        width = 1 << (x.shape[1] - 1).bit_length()
        launch = own_launch(self.library, self.kernel, [out, x], width, (264, 1, 1), ARCH)
        run_launch(launch.bytecode, launch.grid, [out, x, x.shape[0], SCALE])
        return out


class Python:
    """The Python half, captured and executed in this process."""

    def available(self):
        return None

    def execute(self, suite, case, arch, seed):
        from own_softmax import run

        from tilegym_rs_backend.port.capture import capture
        from tilegym_rs_backend.port.execute import execute

        [x] = suite.inputs(case, "cpu", case.seed(seed)).args
        results = []
        capture(lambda: results.append(run(x, SCALE)), arch, device="cpu", carry_out=execute)
        return PeerRun(tuple(results))


@pytest.mark.parametrize("case", OwnSoftmax.cases, ids=lambda case: case.id)
def test_both_halves_are_equal_bit_for_bit(library, case: Case) -> None:
    result = numerics.check(Rust(library, "own_softmax"), Python, OwnSoftmax(), case, Device("cpu"), ARCH, 0)
    assert result.status == "PASS", result.details
    assert result.data["ours"] == result.data["cutile_python"]


def test_a_changed_half_is_not(library) -> None:
    suite = OwnSoftmax()
    changed = Rust(library, "own_softmax_changed")
    result = numerics.check(changed, Python, suite, suite.cases[0], Device("cpu"), ARCH, 0)
    assert result.status == "FAIL"
    assert "elements differ from cuTile Python's, which may not be" in result.details
