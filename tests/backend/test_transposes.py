# SPDX-License-Identifier: MIT
"""transpose: every dtype and stride bit for bit, `out=`, gradients, and what is refused."""

from __future__ import annotations

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.ops import _transpose_space as space
from tilegym_rs_backend.ops.transpose import transpose
from tilegym_rs_backend.tensors import TensorMeta
from tilegym_rs_backend.tuning.machine import machine


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


DTYPES = [
    *(torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.complex64, torch.bool),
    *(torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.uint16),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_every_dtype_is_moved_bit_for_bit(dtype):
    size = dtype.itemsize
    if dtype == torch.bool:
        x = torch.randint(0, 2, (33, 70)).bool()
    else:
        x = torch.randint(0, 256, (33, 70 * size), dtype=torch.uint8).view(dtype)
    found = transpose(x)
    assert found.shape == (70, 33)
    assert found.dtype == dtype
    assert found.is_contiguous()
    assert torch.equal(found.view(torch.uint8), x.t().contiguous().view(torch.uint8))


LAYOUTS = {
    "columns first": lambda x: x.t().contiguous().t(),
    "padded columns first": lambda x: torch.cat((x.t(), x.t()), dim=1)[:, : x.shape[0]].t(),
    "every second column": lambda x: torch.stack((x, x), dim=2).flatten(1)[:, ::2],
    "one row": lambda x: x[:1].expand(x.shape),
    "one column": lambda x: x[:, :1].expand(x.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(40, 72), (1, 9), (9, 1)])
def test_any_strides(layout, shape):
    x = LAYOUTS[layout](torch.randn(shape).half())
    assert torch.equal(transpose(x), x.t())


@pytest.mark.parametrize("strides", [(40, 1), (1, 72), (80, 2), (43, 1)])
def test_an_out_of_any_strides_is_written_and_returned(strides):
    x = torch.randn(40, 72)
    out = torch.full((8000,), torch.nan).as_strided((72, 40), strides)
    before = out._version
    assert transpose(x, out=out) is out
    assert torch.equal(out, x.t())
    assert out._version > before


def test_it_can_be_differentiated_twice():
    x = torch.randn(4, 6, requires_grad=True)
    (first,) = torch.autograd.grad((transpose(x) ** 3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(first, 3 * x**2)
    torch.testing.assert_close(second, 6 * x)


def test_a_gradient_passes_through_an_out():
    x = torch.randn(4, 6, requires_grad=True)
    out = torch.empty(6, 4)
    transpose(x, out).backward(torch.arange(24.0).view(6, 4))
    assert torch.equal(x.grad, torch.arange(24.0).view(6, 4).t())
    assert torch.equal(out, x.detach().t())


def test_a_lazy_conjugate_or_negative_is_resolved_or_refused():
    x = torch.randn(3, 5, dtype=torch.complex64)
    assert torch.equal(transpose(x.conj()), x.conj().t().resolve_conj())
    with pytest.raises(LaunchError, match="inp is a lazily negated"):
        transpose(x.conj().imag)


def test_bad_input_is_refused_by_name():
    x = torch.randn(4, 6)
    with pytest.raises(TypeError, match=r"transpose: inp must be a torch\.Tensor, got list"):
        transpose([x])
    with pytest.raises(ValueError, match=r"inp must have 2 dimensions, got shape \(2, 3, 4\)"):
        transpose(torch.randn(2, 3, 4))
    with pytest.raises(ValueError, match=r"out has shape \(4, 6\), expected \(6, 4\)"):
        transpose(x, torch.empty(4, 6))
    with pytest.raises(LaunchError, match=r"out is torch\.float16 on cpu, the input is torch\.float32"):
        transpose(x, torch.empty(6, 4).half())
    with pytest.raises(LaunchError, match="out has elements that share memory"):
        transpose(x, torch.empty(6, 1).expand(6, 4))
    square = torch.randn(4, 4)
    with pytest.raises(LaunchError, match="out lies within the input's memory"):
        transpose(square, square)
    with pytest.raises(ValueError, match="out asks for a gradient"):
        transpose(x, torch.empty(6, 4, requires_grad=True))
    with pytest.raises(LaunchError, match=r"inp has dtype torch\.complex128; elements of up to 8 bytes"):
        transpose(torch.randn(2, 2, dtype=torch.complex128))


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_nothing_to_move(shape):
    with record("sm_90") as launches:
        assert transpose(torch.empty(shape)).shape == shape[::-1]
    assert launches == []


@pytest.mark.parametrize("shape", [(3, 6_000_000), (6_000_000, 3)])
@pytest.mark.parametrize("down", [False, True])
def test_long_matrices_have_a_grid(shape, down):
    m, n = shape
    problem = space.Problem(
        TensorMeta((n, m), (m, 1), torch.float16, True), TensorMeta(shape, (n, 1), torch.float16, True)
    )
    launch = space.launch(problem, space.Config(32, 32, down), machine("sm_90"))
    tiles = (-(-m // 32), -(-n // 32))
    assert launch.grid == (*(tiles if launch.options["DOWN"] else tiles[::-1]), 1)
    assert launch.grid[1] <= 65535
