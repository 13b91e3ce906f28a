# SPDX-License-Identifier: MIT
"""Streams, graphs, threads, failures and autograd on a real device."""

from __future__ import annotations

import threading
import time

import pytest
import torch

from tilegym_rs_backend.errors import CaptureError
from tilegym_rs_backend.errors import LaunchError

pytestmark = pytest.mark.gpu


def reference(x):
    return torch.softmax(x.float(), -1).to(x.dtype)


def silu_reference(x):
    a, b = x.float().chunk(2, -1)
    return torch.nn.functional.silu(a) * b


def test_a_captured_graph_replays_with_new_data(ops):
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    a, b = (torch.randn(256, 256, device="cuda", dtype=torch.float16) for _ in range(2))
    s = torch.randn(64, 2048, device="cuda", dtype=torch.float16)
    p, q = (torch.randn(2, 96, 96, device="cuda", dtype=torch.float16) for _ in range(2))

    def step():
        return ops.softmax(x), ops.matmul(a, b), ops.silu_and_mul(s), ops.bmm(p, q)  # the last one is redirected

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        softmax, product, gated, batched = step()
    for _ in range(3):
        for tensor in (x, a, b, s, p, q):
            tensor.normal_()
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(softmax, reference(x), atol=1e-3, rtol=1e-2)
        torch.testing.assert_close(product.float(), a.float() @ b.float(), atol=0.1, rtol=2e-2)
        torch.testing.assert_close(gated.float(), silu_reference(s), atol=1e-2, rtol=1e-2)
        torch.testing.assert_close(batched.float(), p.float() @ q.float(), atol=0.1, rtol=2e-2)


def test_a_cold_launch_under_capture_is_a_named_error_and_the_process_goes_on(ops):
    x = torch.randn(33, 779, device="cuda", dtype=torch.bfloat16)
    with pytest.raises(CaptureError, match="warmup"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        ops.softmax(x)
    torch.cuda.synchronize()
    torch.testing.assert_close(ops.softmax(x), reference(x), atol=1e-2, rtol=1e-2)


def test_warmup_makes_the_first_call_legal_under_capture(ops):
    from tilegym_rs_backend import warmup

    x = torch.randn(31, 781, device="cuda", dtype=torch.float16)
    warmup("softmax", [(31, 781)], ["f16"])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = ops.softmax(x)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(y, reference(x), atol=1e-3, rtol=1e-2)


def test_side_streams_order_with_torchs_work(ops):
    x = torch.empty(64, 1024, device="cuda", dtype=torch.float16)
    for number in range(50):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000)
            x.fill_(number % 7)
            x[:, 0] = 1 + number % 5
            y = ops.softmax(x).clone()
        stream.synchronize()
        torch.testing.assert_close(y, reference(x), atol=1e-3, rtol=1e-2)


def test_a_call_neither_synchronizes_nor_waits(ops):
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    ops.softmax(x)
    torch.cuda.synchronize()
    torch.cuda._sleep(400_000_000)
    torch.cuda.set_sync_debug_mode("error")
    try:
        start = time.perf_counter()
        ops.softmax(x)
        seconds = time.perf_counter() - start
    finally:
        torch.cuda.set_sync_debug_mode("default")
    pending = not torch.cuda.current_stream().query()
    torch.cuda.synchronize()
    assert pending, f"the call returned after {seconds} s, when the device was idle: it waited"


def test_a_failing_launch_leaves_the_next_one_working(ops):
    from tilegym_rs_backend import kernels
    from tilegym_rs_backend.launch import launch

    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    out = torch.empty_like(x)
    with pytest.raises(LaunchError):
        launch(kernels.softmax_rows, (1, 70_000, 1), out, x, ROWS=1, BLOCK=1024, TMA=0)
    torch.testing.assert_close(ops.softmax(x), reference(x), atol=1e-3, rtol=1e-2)


def test_sixteen_threads_cold_and_warm(ops):
    errors = []

    def work(number):
        try:
            x = torch.randn(17 + number % 2, 512 + 64 * (number % 3) + 1, device="cuda", dtype=torch.bfloat16)
            for _ in range(100):
                torch.testing.assert_close(ops.softmax(x), reference(x), atol=1e-2, rtol=1e-2)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shape", [(33, 514), (4, 7, 130), (2, 2)])
def test_silu_and_mul_backward(ops, dtype, shape):
    x = torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True)
    y = ops.silu_and_mul(x)
    grad = torch.randn_like(y)
    y.backward(grad)
    exact = x.detach().double().requires_grad_()
    a, b = exact.chunk(2, -1)
    (torch.nn.functional.silu(a) * b).backward(grad.double())
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(x.grad.double(), exact.grad, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_matmul_backward(ops, trans_a, trans_b):
    m, n, k = 192, 130, 257
    a = torch.randn((k, m) if trans_a else (m, k), device="cuda", dtype=torch.bfloat16, requires_grad=True)
    b = torch.randn((n, k) if trans_b else (k, n), device="cuda", dtype=torch.bfloat16, requires_grad=True)
    grad = torch.randn(m, n, device="cuda", dtype=torch.bfloat16)
    ops.matmul(a, b, trans_a=trans_a, trans_b=trans_b).backward(grad)
    wanted = torch.autograd.grad((a.t() if trans_a else a) @ (b.t() if trans_b else b), (a, b), grad)
    torch.testing.assert_close((a.grad, b.grad), wanted, atol=2e-2, rtol=1e-2)


def test_torch_compile_breaks_the_graph_and_is_right(ops):
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    compiled = torch.compile(lambda t: ops.softmax(t) * 2)
    torch.testing.assert_close(compiled(x), reference(x) * 2, atol=2e-3, rtol=1e-2)


def test_a_first_call_inside_a_profiler(ops):
    x = torch.randn(5, 335, device="cuda", dtype=torch.float16)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        ops.softmax(x)
        torch.cuda.synchronize()
    assert any("softmax" in event.key for event in profile.key_averages())


def test_inference_mode(ops):
    x = torch.randn(64, 1024, device="cuda", dtype=torch.float16)
    with torch.inference_mode():
        torch.testing.assert_close(ops.softmax(x), reference(x), atol=1e-3, rtol=1e-2)


def test_unaligned_views_leave_the_context_alive(ops):
    for offset in range(1, 9):
        x = torch.randn(16 * 64 + offset, device="cuda", dtype=torch.float16)[offset:].view(16, 64)
        torch.testing.assert_close(ops.softmax(x), reference(x), atol=1e-3, rtol=1e-2)
    torch.cuda.synchronize()
