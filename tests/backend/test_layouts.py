# SPDX-License-Identifier: MIT
"""Strides, offsets and empty axes of every native op, executed on the CPU (bug reports B9 to B12)."""

from __future__ import annotations

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.ops.dropout import dropout
from tilegym_rs_backend.ops.geglu import geglu
from tilegym_rs_backend.ops.gelu import gelu
from tilegym_rs_backend.ops.get_swiglu import swiglu
from tilegym_rs_backend.ops.matmul import matmul
from tilegym_rs_backend.ops.relu import relu
from tilegym_rs_backend.ops.silu_and_mul import silu_and_mul
from tilegym_rs_backend.ops.softmax import softmax

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
ROWS, COLUMNS = 24, 48


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def padded(x):
    return torch.cat([x, torch.full_like(x, torch.nan)], 1)[:, : x.shape[1]]


def at_offset(x, elements):
    raw = torch.full((x.numel() + elements,), torch.nan, dtype=x.dtype)
    raw[elements:] = x.reshape(-1)
    return raw[elements:].view(x.shape)


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t().contiguous().t(),
    "every second column": lambda x: torch.stack([x, torch.full_like(x, torch.nan)], 2).flatten(1)[:, ::2],
    "one row expanded": lambda x: x[:1].expand(x.shape),
    "one column expanded": lambda x: x[:, :1].expand(x.shape),
    "padded rows": padded,
    "at an offset of 3": lambda x: at_offset(x, 3),
}
OPS = {
    "softmax": softmax,
    "silu_and_mul": silu_and_mul,
    "relu": relu,
    "gelu": gelu,
    "dropout": lambda x: dropout(x, 3),
    "geglu, columns": geglu,
    "geglu, rows": lambda x: geglu(x, 0, "tanh"),
    "swiglu, first": lambda x: swiglu(x, torch.ones(x.shape, dtype=x.dtype)),
    "swiglu, second": lambda x: swiglu(torch.ones(x.shape, dtype=x.dtype), x),
    "matmul, first": lambda x: matmul(x, torch.linspace(-1, 1, COLUMNS * 16).view(COLUMNS, 16).to(x.dtype)),
    "matmul, second": lambda x: matmul(torch.linspace(-1, 1, 16 * ROWS).view(16, ROWS).to(x.dtype), x),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", OPS)
def test_any_strides_give_the_bits_of_contiguous_memory(op, layout, dtype):
    """What lies between the elements is NaN, so a kernel that went by the wrong stride would show."""
    x = LAYOUTS[layout](torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(7)).to(dtype))
    assert torch.equal(OPS[op](x), OPS[op](x.contiguous()))


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_tensors_of_four_axes_in_any_order(order):
    """Channels-last and others; strides of every axis count, and not the second's alone."""
    x = torch.randn(2, 4, 6, 8)
    back = [order.index(axis) for axis in range(4)]
    permuted = x.permute(order).contiguous().permute(back)
    assert torch.equal(permuted, x)
    assert permuted.stride() != x.stride()
    assert torch.equal(silu_and_mul(permuted), silu_and_mul(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("op", [softmax, silu_and_mul, relu, geglu, lambda x: dropout(x, 3), lambda x: swiglu(x, x)])
def test_every_offset_is_right_and_there_are_two_variants(op, dtype):
    """Addresses that do not divide by 16: one more variant, and no more."""
    x = torch.randn(ROWS, COLUMNS).to(dtype)
    wanted = op(x)
    variants = set()
    for elements in range(17):
        moved = at_offset(x, elements)
        assert torch.equal(op(moved), wanted), elements
        with record("sm_90") as launches:
            op(moved)
        variants |= {launch.spec_text for launch in launches}
    assert len(variants) == 2


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 0)])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_empty_axes(shape, dtype):
    """torch's answer, no launch, and the next call works."""
    x = torch.empty(shape, dtype=dtype)
    with record("sm_90") as launches:
        softmax(x)
        silu_and_mul(x)
        silu_and_mul(torch.empty(3, *shape, dtype=dtype))
        for op in (relu, gelu, geglu, lambda x: dropout(x, 3), lambda x: dropout(x, 3, inplace=True)):
            op(x)
        swiglu(x, x)
        matmul(x, torch.empty(shape[1], 5, dtype=dtype))
    assert launches == []
    assert torch.equal(softmax(x), torch.softmax(x, -1))
    assert relu(x).shape == gelu(x).shape == dropout(x, 3).shape == swiglu(x, x).shape == shape
    assert geglu(x).shape == (shape[0], shape[1] // 2)
    assert silu_and_mul(x).shape == (shape[0], shape[1] // 2)
    assert torch.equal(matmul(x, torch.ones(shape[1], 5, dtype=dtype)), x @ torch.ones(shape[1], 5, dtype=dtype))
    y = torch.randn(4, 16).to(dtype)
    assert torch.allclose(softmax(y).float(), torch.softmax(y.float(), -1), atol=1e-2)


HUGE = {
    "an extent": (lambda: torch.empty(2**31, 1, device="meta"), r"x has extent 2147483648 on axis 0"),
    "a stride": (
        lambda: torch.empty(1, device="meta").as_strided((4, 4), (2**31, 1)),
        "x has stride 2147483648 on axis 0",
    ),
    "a stride of a view": (
        lambda: torch.empty(4, device="meta").as_strided((2, 2), (1, 2**33)),
        "x has stride 8589934592 on axis 1",
    ),
}


@pytest.mark.parametrize(("make", "text"), HUGE.values(), ids=HUGE)
def test_what_32_bits_cannot_index_is_refused_by_name(make, text):
    with record("sm_90") as launches, pytest.raises(LaunchError, match=f"softmax: {text}, outside of 0..2147483647"):
        softmax(make())
    assert launches == []
