# SPDX-License-Identifier: MIT
"""What the activations and dropout promise besides the numbers of their cases; executed on the CPU."""

from __future__ import annotations

import math
import struct
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import bind
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.ops import _flat
from tilegym_rs_backend.ops import _gated
from tilegym_rs_backend.ops import dropout as dropout_module
from tilegym_rs_backend.ops._dropout_space import SPACE as DROPOUT
from tilegym_rs_backend.ops._geglu_space import SPACE as GEGLU
from tilegym_rs_backend.ops._geglu_space import launch
from tilegym_rs_backend.ops.dropout import dropout
from tilegym_rs_backend.ops.geglu import geglu
from tilegym_rs_backend.ops.gelu import gelu
from tilegym_rs_backend.ops.get_swiglu import get_swiglu
from tilegym_rs_backend.ops.get_swiglu import swiglu
from tilegym_rs_backend.ops.get_swiglu_module import get_swiglu_module
from tilegym_rs_backend.ops.relu import relu
from tilegym_rs_backend.ops.silu_and_mul import silu_and_mul
from tilegym_rs_backend.target import target_of
from tilegym_rs_backend.tuning.machine import FAMILIES
from tilegym_rs_backend.tuning.machine import machine

H200 = machine("sm_90")


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def hash_of(number: int, seed: int) -> int:
    """Dropout's hash, in Python's integers."""
    value = (number * 1103515245 + seed * 0x9E3779B1) & 0xFFFFFFFF
    signed = value - 2**32 if value >= 2**31 else value
    signed ^= signed >> 16
    signed = (signed ^ (signed << 8)) & 0xFFFFFFFF
    signed = signed - 2**32 if signed >= 2**31 else signed
    return (signed ^ (signed >> 4)) & 0x7FFFFFFF


@pytest.mark.parametrize("seed", [0, 1, -1, 2**31 - 1, -(2**31), 2**63 + 5])
@pytest.mark.parametrize("p", [0.25, 0.9])
def test_the_mask_is_the_hash_above_p(seed, p):
    got = dropout(torch.ones(3, 700), seed, p).view(-1).tolist()
    assert [value != 0 for value in got] == [hash_of(number, seed) / 2**31 > p for number in range(2100)]
    assert set(got) == {0.0, struct.unpack("f", struct.pack("f", 1 / (1 - p)))[0]}


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.1, 0.3, 0.5, 1 - 2**-24, 0.9999999])
def test_the_threshold_parts_hashes_as_the_fraction_does(p):
    """The kernel compares integers; TileGym's definition compares the fraction, in f32."""
    threshold, _ = dropout_module._terms(p, torch.float32)
    near = torch.arange(max(threshold - 300, 0), min(threshold + 300, 2**31 - 1) + 1)
    fraction = near.to(torch.float32) / 2147483647.0
    assert torch.equal(near > threshold, fraction > torch.tensor(p, dtype=torch.float32))


def test_p_of_one_and_more_drops_all_and_below_zero_none():
    x = torch.full((5, 7), 3.0)
    for p in (1.0, 1.5, math.inf):
        assert not dropout(x, 3, p).any()
    assert torch.equal(dropout(x, 3, -0.5), x / 1.5)
    assert not dropout(x, 3, math.nan).any()


def test_another_seed_or_p_is_the_same_launch():
    """Nothing is compiled or planned anew for them: they are arguments."""
    x = torch.randn(4, 300)
    dropout(x, 0)
    with record("sm_90") as found:
        for seed in range(20):
            dropout(x, seed, 0.01 * seed)
    assert len({one.spec_text for one in found}) == 1
    assert len(found) == 20


def test_dropout_in_place_writes_to_x_and_returns_it():
    x = torch.randn(6, 40)
    want = dropout(x, 9, 0.3)
    for layout in (torch.Tensor.clone, lambda t: t.t().contiguous().t(), lambda t: torch.cat([t, t], 1)[:, :40]):
        one = layout(x)
        version = one._version
        assert dropout(one, 9, 0.3, inplace=True) is one
        assert torch.equal(one, want)
        assert one._version > version
    with pytest.raises(LaunchError, match=r"dropout: x has elements that share memory .* pass x\.clone"):
        dropout(torch.randn(1, 4).expand(3, 4), 1, inplace=True)


def test_dropout_outside_of_training_is_x_itself():
    x = torch.randn(3, 4, requires_grad=True)
    assert dropout(x, 1, training=False) is x
    assert dropout(x, 1, training=False, inplace=True) is x


def test_dropout_and_relu_have_no_backward():
    x = torch.randn(3, 4, requires_grad=True)
    for op in (relu, lambda t: dropout(t, 1), lambda t: dropout(t * 1, 1, inplace=True)):
        with pytest.raises(NotImplementedError, match="has no backward in backend 'cutile_rs'"):
            op(x).sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        dropout(x, 1, inplace=True)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: dropout(torch.ones(4), 1, scale=2), TypeError, r"dropout: unknown arguments \['scale'\]"),
        (lambda: dropout(torch.ones(4), "a"), ValueError, "invalid literal"),
        (lambda: dropout(torch.ones(4, dtype=torch.int32), 1), LaunchError, "dropout: x has dtype torch.int32"),
        (lambda: relu(torch.ones(4, dtype=torch.float64)), LaunchError, "relu: x has dtype torch.float64"),
        (lambda: gelu(torch.ones(4), "sigmoid"), ValueError, "gelu: approximate is 'none' or 'tanh', got 'sigmoid'"),
        (lambda: gelu(torch.ones(4).double()), LaunchError, "gelu: input has dtype torch.float64"),
        (lambda: geglu(torch.tensor(1.0)), ValueError, "geglu: dim -1 of an input with 0 axes"),
        (lambda: geglu(torch.ones(4, 6), 2), ValueError, "geglu: dim 2 of an input with 2 axes"),
        (lambda: geglu(torch.ones(4, 5)), ValueError, r"geglu: axis 1 must hold both halves .* \(4, 5\)"),
        (lambda: geglu(torch.ones(4, dtype=torch.int64)), LaunchError, "geglu: input has dtype torch.int64"),
        (lambda: swiglu(torch.ones(4), torch.ones(5)), ValueError, r"a has shape \(4,\), b \(5,\): they must be equal"),
        (
            lambda: swiglu(torch.ones(4), torch.ones(4).half()),
            LaunchError,
            "a has dtype torch.float32, b torch.float16",
        ),
        (lambda: swiglu(torch.ones(4), torch.ones(4, device="meta")), LaunchError, "a is on cpu but b is on meta"),
    ],
)
def test_refusals(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_more_elements_than_32_bits_count():
    """Nothing is refused, and the grid covers all of them; memory for them is not needed to see that."""
    n = 5 * 858993461
    x = torch.empty(n, dtype=torch.float16, device="meta")
    with record("sm_90") as found:
        for op in (relu, gelu, lambda t: dropout(t, 1)):
            op(x)
        swiglu(x.view(5, -1)[:4], x.view(5, -1)[:4])
    for one in found[:3]:
        assert one.grid[0] * one.constants["TILE"] >= n > (one.grid[0] - 1) * one.constants["TILE"]
    rows, cols = found[3].constants["ROWS"], found[3].constants["COLS"]
    assert found[3].grid[0] * cols >= n // 5
    assert found[3].grid[1] * found[3].grid[2] * rows >= 4


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -2])
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_geglu_of_every_axis_has_a_gradient(axis, approximate):
    x = torch.randn(4, 6, 2, 10, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    a, b = wide.chunk(2, axis)
    want = a * functional.gelu(b, approximate=approximate)
    got = geglu(x, axis, approximate)
    assert got.is_contiguous()
    torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)
    upstream = torch.randn_like(got)
    got.backward(upstream)
    want.backward(upstream.double())
    torch.testing.assert_close(x.grad.double(), wide.grad, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelus_error_is_below_a_millionth_and_far_out_slopes_are_0_and_1(approximate):
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([1e19, -1e19, 3e38, -3e38])]).requires_grad_()
    got = gelu(x, approximate)
    got.backward(torch.ones_like(got))
    wide = x.detach().double().requires_grad_()
    functional.gelu(wide, approximate=approximate).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(got.double(), functional.gelu(wide, approximate=approximate), rtol=3e-7, atol=5e-7)
    torch.testing.assert_close(x.grad[:-4].double(), wide.grad[:-4], rtol=3e-7, atol=1e-6)
    assert x.grad[-4:].tolist() == [1.0, 0.0, 1.0, 0.0]


def test_swiglu_is_what_the_factory_returns_and_takes_halves_as_they_lie():
    assert get_swiglu() is swiglu
    both = torch.randn(9, 64)
    a, b = both.chunk(2, 1)
    with record("sm_90") as found:
        swiglu(a, b)
        swiglu(a.contiguous(), b.contiguous())
    assert [one.constants["WHOLE"] for one in found] == [1, 1]
    assert [(one.grid, one.constants["COLS"]) for one in found][1] == ((1, 1, 1), 512)
    assert torch.equal(swiglu(a, b), swiglu(a.contiguous(), b.contiguous()))


def test_the_module_is_a_transformers_block():
    module = get_swiglu_module()(SimpleNamespace(hidden_size=16, intermediate_size=24, hidden_act="silu"))
    assert list(module.state_dict()) == ["gate_proj.weight", "up_proj.weight", "down_proj.weight"]
    x = torch.randn(2, 3, 16)
    want = module.down_proj(functional.silu(module.gate_proj(x)) * module.up_proj(x))
    torch.testing.assert_close(module(x), want)
    narrow = get_swiglu_module()(SimpleNamespace(hidden_size=16, intermediate_size=24, hidden_act="swish"), 8, 4)
    assert narrow.gate_proj.weight.shape == (4, 8)
    with pytest.raises(ValueError, match="hidden_act is 'silu' or 'swish', got 'gelu'"):
        get_swiglu_module()(SimpleNamespace(hidden_size=16, intermediate_size=24, hidden_act="gelu"))


def test_a_training_step_of_the_block_is_torchs():
    torch.manual_seed(0)
    config = SimpleNamespace(hidden_size=16, intermediate_size=40, hidden_act="silu")
    ours = get_swiglu_module()(config)
    theirs = [p.detach().clone().requires_grad_() for p in ours.parameters()]
    x, target = torch.randn(2, 12, 16)
    optimizers = [torch.optim.SGD(ours.parameters(), 0.1), torch.optim.SGD(theirs, 0.1)]

    def formula():
        gate, up, down = theirs
        return functional.linear(functional.silu(functional.linear(x, gate)) * functional.linear(x, up), down)

    for result, optimizer in zip((ours(x), formula()), optimizers, strict=True):
        functional.mse_loss(result, target).backward()
        optimizer.step()
    for mine, other in zip(ours.parameters(), theirs, strict=True):
        torch.testing.assert_close(mine.detach(), other.detach(), rtol=1e-5, atol=1e-6)


def test_silu_and_muls_gradient_is_one_tensor_from_one_launch():
    x = torch.randn(5, 3, 24, requires_grad=True)
    y = silu_and_mul(x)
    with record("sm_90") as found:
        (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert [one.kernel for one in found] == ["silu_and_mul_backward"]
    assert grad.is_contiguous()


@pytest.mark.parametrize(
    ("scalars", "text"),
    [
        ((1, 2, 3.0), "pack expected 4 items"),
        ((1, 2, 3.0, 4, 5), "pack expected 4 items"),
        ((2**31, 2, 3.0, 4), "are no i32, i32, f32, i32"),
        ((1, 2.5, 3.0, 4), "are no i32, i32, f32, i32"),
    ],
)
@pytest.mark.parametrize("where", ["cpu", "cuda"])
def test_scalars_of_a_call_have_to_be_the_kernels(library, cuda_like, where, scalars, text):
    x = torch.ones(64)
    target = target_of(x if where == "cpu" else cuda_like(x), "dropout", "x")
    one = DROPOUT.launch(_flat.Problem(64, x.dtype, (True, True)), _flat.Config(512), H200)
    run = bind(library, target, one.kernel, one.grid, *one.args.values(), **one.options)
    with pytest.raises(LaunchError, match=text):
        run(x.data_ptr() & -16, x.data_ptr() & -16, scalars=scalars)


def test_scalars_of_a_call_reach_the_driver(driver, library, cuda_like):
    x = cuda_like(torch.ones(2, 40))
    start = driver.count
    dropout(x, 1)
    dropout(x, 2)
    assert driver.count == start + 2


@pytest.mark.parametrize("arch", FAMILIES)
@pytest.mark.parametrize("n", [1, 1000, 2**20, 2**33])
@pytest.mark.parametrize("tensors", [2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_flat_defaults_keep_the_rules(arch, n, tensors, dtype):
    problem, here = _flat.Problem(n, dtype, (True,) * tensors), machine(arch)
    assert DROPOUT.broken(problem, _flat.default(problem, here), here) == ""


@pytest.mark.parametrize("rows", [1, 7, 300000])
@pytest.mark.parametrize("cols", [1, 3, 64, 1000, 2**20])
@pytest.mark.parametrize("matrices", [3, 5])
def test_gated_launches_cover_everything(rows, cols, matrices):
    problem = _gated.Problem(rows, cols, torch.float16, (_gated.Matrix(cols, True),) * matrices, (("TANH", 0),))
    kept = GEGLU.candidates(problem, H200).kept
    assert 1 <= len(kept) <= 14
    for config in kept:
        one = launch(problem, config, H200)
        across = one.grid[0] if not one.options["WHOLE"] else 1
        down = one.grid[0] if one.options["WHOLE"] else one.grid[1] * one.grid[2]
        assert across * config.cols >= cols > (across - 1) * config.cols
        assert down * config.rows >= rows
        assert one.options["EXACT"] == (across * config.cols == cols and down * config.rows == rows)


@pytest.mark.parametrize(
    ("shape", "strides", "cols", "distance"),
    [
        ((4, 6), (6, 1), 6, 6),
        ((4, 6), (9, 1), 6, 9),
        ((4, 6), (0, 1), 6, 0),
        ((4, 6), (12, 2), 6, None),
        ((2, 4, 6), (36, 9, 1), 6, 9),
        ((2, 4, 6), (40, 9, 1), 6, None),
        ((2, 1, 6), (9, 77, 1), 6, 9),
        ((1, 6), (77, 1), 6, 6),
        ((4, 1), (3, 1), 1, 3),
        ((), (), 1, 1),
    ],
)
def test_rows_equally_far_apart(shape, strides, cols, distance):
    assert _gated.distance_of_rows(shape, strides, cols) == distance


@pytest.mark.parametrize(
    ("shape", "strides", "dense"),
    [((3, 4), (4, 1), True), ((3, 4), (1, 3), True), ((3, 4), (5, 1), False), ((3, 4), (0, 1), False), ((), (), True)],
)
def test_dense_is_each_place_once_in_any_order(shape, strides, dense):
    assert _flat.is_dense(shape, strides) == dense
