# SPDX-License-Identifier: MIT
"""The ops on CPU tensors: the kernels' own bytecode, executed; against torch in fp64."""

from __future__ import annotations

import math

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.fresh import uninitialized_memory
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.ops.matmul import matmul
from tilegym_rs_backend.ops.silu_and_mul import silu_and_mul
from tilegym_rs_backend.ops.softmax import softmax
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tile_ir.execute import ExecutionError

TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
DTYPES = list(TOLERANCE)


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")
    with uninitialized_memory():
        yield


def close(got, expected):
    bound = TOLERANCE[got.dtype]
    torch.testing.assert_close(got.double(), expected, rtol=bound, atol=bound, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", [{}, {"use_tma": True}, {"use_chunked": True}, {"use_multi_wave": True}])
@pytest.mark.parametrize("shape", [(3, 17), (64, 256)])
def test_softmax(dtype, variant, shape):
    x = torch.randn(shape).to(dtype)
    close(softmax(x, **variant), torch.softmax(x.double(), -1))


@pytest.mark.parametrize("variant", [{}, {"use_chunked": True}])
def test_softmax_of_nan_and_infinities(variant):
    x = torch.randn(6, 40)
    x[0, 3], x[1, 4], x[2] = math.nan, math.inf, -math.inf
    x[3, 5] = -math.inf
    x[4] = 3e38
    close(softmax(x, **variant), torch.softmax(x.double(), -1))


def test_softmax_of_strided_and_unaligned_inputs():
    wide = torch.randn(20, 96)
    for x in (wide[::2, :50], wide[:, 1:51], wide.t(), wide[:1].expand(8, 96)):
        close(softmax(x), torch.softmax(x.double(), -1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_and_mul_and_its_gradient(dtype):
    x = torch.randn(2, 9, 2 * 72).to(dtype).requires_grad_()
    y = silu_and_mul(x)
    exact = x.detach().double().requires_grad_()
    expected = torch.nn.functional.silu(exact[..., :72]) * exact[..., 72:]
    close(y, expected.detach())
    weight = torch.randn(y.shape).to(dtype)
    y.backward(weight)
    expected.backward(weight.double())
    torch.testing.assert_close(x.grad.double(), exact.grad, rtol=5 * TOLERANCE[dtype], atol=5 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True)])
def test_matmul(dtype, trans):
    a = torch.randn(*((40, 72) if trans[0] else (72, 40))).to(dtype)
    b = torch.randn(*((56, 40) if trans[1] else (40, 56))).to(dtype)
    x, y = a.t() if trans[0] else a, b.t() if trans[1] else b
    got = matmul(a, b, trans_a=trans[0], trans_b=trans[1])
    bound = 1e-2 if dtype == torch.float32 else 4 * TOLERANCE[dtype]  # f32 goes through tf32
    torch.testing.assert_close(got.double(), x.double() @ y.double(), rtol=bound, atol=bound)


def test_grids_are_those_of_the_architecture_asked_for(monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_ARCH", "sm_100")
    assert (executing_target().arch, executing_target().sm_count) == ("sm_100", 148)
    assert executing_target() is executing_target()


def test_recording_still_only_records():
    x = torch.randn(4, 64)
    with record("sm_90") as launches:
        softmax(x)
    assert len(launches) == 1


def test_meta_tensors_are_refused():
    with pytest.raises(LaunchError, match="x is on meta"):
        softmax(torch.empty(4, 64, device="meta"))


def test_an_unknown_choice_is_named(monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "maybe")
    with pytest.raises(LaunchError, match="'execute', 'refuse' or unset"):
        softmax(torch.randn(4, 64))


def test_reading_an_input_nobody_wrote_is_found():
    with pytest.raises(ExecutionError) as caught:
        softmax(torch.empty(4, 64))
    assert caught.value.kind == "uninitialized"
    assert caught.value.file == "src/device/memory.rs"  # whose load it is
    filled = torch.empty(4, 64)
    filled.fill_(1.0)
    close(softmax(filled), torch.softmax(filled.double(), -1))
    close(softmax(softmax(filled)), torch.softmax(torch.softmax(filled.double(), -1), -1))
