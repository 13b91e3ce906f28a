# SPDX-License-Identifier: MIT
"""Launches through the real library onto a driver that only notes them."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from tilegym_rs_backend.errors import CaptureError
from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import launch
from tilegym_rs_backend.ops.matmul import matmul
from tilegym_rs_backend.ops.silu_and_mul import silu_and_mul
from tilegym_rs_backend.ops.softmax import softmax
from tilegym_rs_backend.plans import forget_plans

pytestmark = pytest.mark.cargo


def test_stream_and_device_come_from_the_tensor(driver, library, cuda_like):
    x = cuda_like(torch.randn(8, 64), index=1)
    softmax(x)  # loads
    driver.lib.fake_set_current(0xC000)  # cuda:0 is current
    start = driver.count
    out = softmax(x)
    (launch,) = driver.since(start)
    assert launch.context == 0xC001
    assert launch.stream == 0x5001
    assert launch.first_param == out.data_ptr()
    assert driver.lib.fake_current() == 0xC000, "the caller's context is current again"


def test_stream_is_read_at_call_time(driver, library, cuda_like, monkeypatch):
    x = cuda_like(torch.randn(8, 64))
    softmax(x)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0x7777)
    forget_plans()  # a bound keeps torch's function; the fixture's stands for an older torch
    start = driver.count
    softmax(x)
    assert driver.since(start)[0].stream == 0x7777


def test_each_alignment_class_has_its_own_plan(driver, library, cuda_like):
    base = torch.randn(8 * 64 + 1)
    aligned, offset = cuda_like(base[:-1].view(8, 64)), cuda_like(base[1:].view(8, 64))
    start = driver.count
    softmax(aligned)
    softmax(offset)
    first, second = driver.since(start)
    assert first.function != second.function


def test_sixteen_threads_cold_and_warm(driver, library, cuda_like):
    x = cuda_like(torch.randn(5, 80))
    loads, start, errors = driver.lib.fake_loads(), driver.count, []
    barrier = threading.Barrier(16)

    def work():
        try:
            barrier.wait()
            for _ in range(50):
                softmax(x)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert driver.count - start == 16 * 50
    assert driver.lib.fake_loads() - loads == 1, "one load per specialization and device"


def test_threads_see_their_own_pointers(driver, library, cuda_like):
    tensors = [cuda_like(torch.randn(4, 96)) for _ in range(4)]
    wanted = []
    softmax(tensors[0])
    start = driver.count

    def work(x):
        for _ in range(500):
            wanted.append(softmax(x).data_ptr())

    threads = [threading.Thread(target=work, args=(x,)) for x in tensors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(launch.first_param for launch in driver.since(start)) == sorted(wanted)


def test_cold_launch_under_capture_names_the_warmup(driver, library, cuda_like, monkeypatch):
    x = cuda_like(torch.randn(3, 50, dtype=torch.bfloat16))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    start = driver.count
    with pytest.raises(CaptureError, match=r"warmup\(op, shapes, dtypes\)"):
        softmax(x)
    assert driver.count == start
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    softmax(x)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    softmax(x)  # warm: legal under capture
    assert driver.count == start + 2


def test_a_failing_launch_leaves_the_next_one_working(driver, library, cuda_like):
    x = cuda_like(torch.randn(8, 64))
    softmax(x)
    driver.lib.fake_fail_next(1)
    with pytest.raises(LaunchError, match="CUDA_ERROR_FAKE") as caught:
        softmax(x)
    assert caught.value.rc == -3
    start = driver.count
    softmax(x)
    assert driver.count == start + 1


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
def test_zero_sizes_launch_nothing(driver, library, cuda_like, shape):
    start = driver.count
    assert softmax(cuda_like(torch.empty(shape))).shape == shape
    assert silu_and_mul(cuda_like(torch.empty(shape))).shape == (shape[0], shape[1] // 2)
    assert driver.count == start


def test_matmul_of_nothing_is_zero(driver, library, cuda_like):
    start = driver.count
    c = matmul(cuda_like(torch.empty(4, 0)), cuda_like(torch.empty(0, 5)))
    assert c.shape == (4, 5)
    assert not c.any()
    assert driver.count == start


def test_two_devices_are_refused_by_name(driver, library, cuda_like):
    a, b = cuda_like(torch.randn(8, 8), index=0), cuda_like(torch.randn(8, 8), index=1)
    with pytest.raises(LaunchError, match=r"a is on cuda:0 but b is on cuda:1"):
        matmul(a, b)
    with pytest.raises(LaunchError, match=r"input is on cuda:0 but out is on cuda:1"):
        silu_and_mul(a, out=cuda_like(torch.empty(8, 4), index=1))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.empty(2, 2**31, device="meta"), r"extent 2147483648 on axis 1"),
        (lambda: torch.empty(1, device="meta").as_strided((4, 4), (2**31, 1)), r"stride 2147483648 on axis 0"),
        (lambda: torch.empty(4, 4, 4), "2 dimensions"),
        (lambda: torch.empty(4, 4, dtype=torch.int32), "int32"),
        (lambda: torch.empty(4, 4).to_sparse(), "layout"),
    ],
)
def test_what_no_kernel_takes_is_refused_by_name(driver, library, cuda_like, make, text):
    from tilegym_rs_backend.launch import record

    start = driver.count
    with record("sm_90"), pytest.raises(LaunchError, match=text):
        softmax(make())
    assert driver.count == start


def test_cpu_tensors_are_refused_by_name(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "refuse")
    with pytest.raises(LaunchError, match="x is on cpu"):
        softmax(torch.randn(4, 4))


def test_forward_only_ops_fail_in_backward_not_before(driver, library, cuda_like):
    x = cuda_like(torch.randn(4, 64)).requires_grad_()
    y = softmax(x)
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match=r"softmax .*cutile_rs"):
        y.sum().backward()
    with torch.no_grad():
        assert not softmax(x).requires_grad


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_matmul_gradients_on_the_cpu(library, trans_a, trans_b):
    a = torch.randn((7, 5) if trans_a else (5, 7)).requires_grad_()
    b = torch.randn((3, 7) if trans_b else (7, 3)).requires_grad_()
    grad = torch.randn(5, 3)
    matmul(a, b, trans_a, trans_b).backward(grad)
    wanted = torch.autograd.grad((a.t() if trans_a else a) @ (b.t() if trans_b else b), (a, b), grad)
    for got, want in zip((a.grad, b.grad), wanted, strict=True):
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, atol=1e-2, rtol=1e-2)  # tf32


@pytest.mark.parametrize(
    ("grid", "options", "text"),
    [
        ((4, 1), {}, r"a grid is three integers \(x, y, z\), got \(4, 1\)"),
        ((4, 1, 1, 1), {}, "a grid is three integers"),
        (4, {}, "a grid is three integers"),
        ((1.5, 1, 1), {}, "a grid is three integers"),
        ((-1, 1, 1), {}, r"grid \(-1, 1, 1\): the axes are 0..2147483647, 0..65535, 0..65535"),
        ((2**40, 1, 1), {}, ".*the axes are"),
        ((1, 65536, 1), {}, ".*the axes are"),
        ((4, 1, 1), {"BLOCK": 2**40}, "BLOCK = 1099511627776 does not fit 32 bits"),
        ((4, 1, 1), {"BLOCK": 16.7}, "BLOCK = 16.7 is no integer"),
        ((4, 1, 1), {"BLOCK": "16"}, "BLOCK = '16' is no integer"),
        ((4, 1, 1), {"BLOCK": [16]}, r"BLOCK = \[16\] is no integer"),
        ((4, 1, 1), {"occupancy": 2**40}, "occupancy = 1099511627776 does not fit 32 bits"),
        ((4, 1, 1), {"occupancy": None}, "occupancy = None is no integer"),
    ],
)
def test_a_launch_that_cannot_be_meant_is_refused_by_name(library, monkeypatch, grid, options, text):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")
    x = torch.randn(4, 16)
    constants = {"ROWS": 1, "BLOCK": 16, "ALIGN": 4, "EXACT": True}
    with pytest.raises(LaunchError, match=f"softmax_packed: {text}"):
        launch("softmax_packed", grid, torch.empty_like(x), x, **{**constants, **options})


def test_a_launch_takes_any_integers(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")
    x, out = torch.randn(4, 16), torch.empty(4, 16)
    launch("softmax_packed", [np.int64(4), 1, 1], out, x, ROWS=np.int32(1), BLOCK=16, ALIGN=4, EXACT=True)
    torch.testing.assert_close(out, torch.softmax(x, -1))
