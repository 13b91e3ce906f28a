# SPDX-License-Identifier: MIT
"""cuda:1 while cuda:0 is current."""

from __future__ import annotations

import threading

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError

pytestmark = pytest.mark.gpu


def test_the_tensors_device_counts(ops, two_gpus):
    x = torch.randn(64, 1024, device="cuda:1", dtype=torch.float16)
    a, b = (torch.randn(128, 128, device="cuda:1") for _ in range(2))
    y, c = ops.softmax(x), ops.matmul(a, b)
    torch.cuda.synchronize(1)
    assert y.device == c.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    torch.testing.assert_close(y, torch.softmax(x, -1), atol=1e-3, rtol=1e-2)
    torch.testing.assert_close(c, a @ b, atol=0.1, rtol=1e-2)


def test_a_redirected_op_runs_on_its_tensors_device(ops, two_gpus):
    a, b = (torch.randn(2, 64, 64, device="cuda:1", dtype=torch.float16) for _ in range(2))
    for device in (0, 1):
        with torch.cuda.device(device):
            c = ops.bmm(a, b)
            torch.cuda.synchronize(1)
        assert c.device == torch.device("cuda:1")
        torch.testing.assert_close(c, torch.bmm(a, b), atol=0.1, rtol=1e-2)


def test_streams_of_the_other_device(ops, two_gpus):
    x = torch.empty(64, 1024, device="cuda:1", dtype=torch.float16)
    for number in range(20):
        stream = torch.cuda.Stream(device=1)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000)
            x.fill_(number % 5)
            x[:, 0] = 1 + number
            y = ops.softmax(x).clone()
        stream.synchronize()
        torch.testing.assert_close(y, torch.softmax(x, -1), atol=1e-3, rtol=1e-2)


def test_mixed_devices_are_refused_by_name(ops, two_gpus):
    a, b = torch.randn(8, 8, device="cuda:0"), torch.randn(8, 8, device="cuda:1")
    with pytest.raises(LaunchError, match=r"cuda:0.*cuda:1"):
        ops.matmul(a, b)


def test_threads_on_both_devices(ops, two_gpus):
    errors = []

    def work(index):
        try:
            x = torch.randn(64, 257, device=f"cuda:{index % 2}")
            for _ in range(200):
                torch.testing.assert_close(ops.softmax(x), torch.softmax(x, -1), atol=1e-6, rtol=1e-5)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]
