# SPDX-License-Identifier: MIT
"""What the ops accept and refuse: things that are no tensors, subclasses, and an `out` near the input's memory."""

from __future__ import annotations

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.ops.dropout import dropout
from tilegym_rs_backend.ops.geglu import geglu
from tilegym_rs_backend.ops.gelu import gelu
from tilegym_rs_backend.ops.get_swiglu import swiglu
from tilegym_rs_backend.ops.matmul import matmul
from tilegym_rs_backend.ops.relu import relu
from tilegym_rs_backend.ops.silu_and_mul import silu_and_mul
from tilegym_rs_backend.ops.softmax import softmax


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def reference(x):
    hidden = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :hidden]) * x[..., hidden:]


@pytest.mark.parametrize("value", [None, 3, [[1.0]]])
def test_what_is_no_tensor_is_named(value):
    x = torch.randn(2, 2)
    for call, name in (
        (lambda: softmax(value), "softmax: x"),
        (lambda: silu_and_mul(value), "silu_and_mul: input"),
        (lambda: matmul(value, x), "matmul: a"),
        (lambda: matmul(x, value), "matmul: b"),
        (lambda: relu(value), "relu: x"),
        (lambda: gelu(value), "gelu: input"),
        (lambda: geglu(value), "geglu: input"),
        (lambda: dropout(value, 1), "dropout: x"),
        (lambda: swiglu(value, x), "get_swiglu: a"),
        (lambda: swiglu(x, value), "get_swiglu: b"),
    ):
        with pytest.raises(TypeError, match=f"{name} must be a torch.Tensor, got {type(value).__name__}"):
            call()


def test_a_parameter_of_many_dimensions_is_a_tensor_like_any_other():
    x = torch.nn.Parameter(torch.randn(1, 2, 1, 2, 1, 3, 8))
    torch.testing.assert_close(silu_and_mul(x), reference(x))


def _columns():
    buffer = torch.randn(3, 2, 12)
    return buffer[..., :8], buffer[..., 8:]


def _columns_before():
    buffer = torch.randn(3, 12)
    return buffer[:, 4:], buffer[:, :4]


def _rows():
    buffer = torch.randn(6, 8)
    return buffer[::2], buffer[1::2, :4]


def _half_of_one_row():
    buffer = torch.randn(1, 8)
    return buffer, buffer.view(-1)[4:].view(1, 4)


def _half():
    buffer = torch.randn(3, 8)
    return buffer, buffer[:, :4]


@pytest.mark.parametrize("make", [_columns, _columns_before, _rows, _half_of_one_row, _half])
def test_an_out_that_shares_no_element_with_the_input_or_is_its_half(make):
    x, out = make()
    expected = reference(x)
    assert silu_and_mul(x, out=out) is out
    torch.testing.assert_close(out, expected)


def test_an_out_that_overlaps_is_refused():
    buffer = torch.randn(4, 12)
    for x, out in (
        (buffer[:, :8], buffer[:, 2:6]),
        (buffer[:, :8], buffer[:, 6:10]),
        (buffer[:, 2:10], buffer[:, :4]),
        (buffer[:3, 4:], buffer[1:, 2:6]),
    ):
        with pytest.raises(LaunchError, match="out overlaps the input"):
            silu_and_mul(x, out=out)
    memory = torch.randn(4, 12).numpy()  # two storages over the same memory
    with pytest.raises(LaunchError, match="out overlaps the input"):
        silu_and_mul(torch.from_numpy(memory[:, :8]), out=torch.from_numpy(memory[:, 2:6]))
