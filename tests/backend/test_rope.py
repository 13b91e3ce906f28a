# SPDX-License-Identifier: MIT
"""Rotary embedding: what is written and what is not, gradients, tables of every form, and what is refused."""

from __future__ import annotations

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.ops import _apply_rope_base_space as space
from tilegym_rs_backend.ops.apply_rope_base import apply_rope_base
from tilegym_rs_backend.ops.get_apply_rope_func import get_apply_rope_func
from tilegym_rs_backend.tensors import TensorMeta
from tilegym_rs_backend.tuning.machine import machine

H200 = machine("sm_90")
CLOSE = {"rtol": 1e-5, "atol": 2e-6}


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def inputs(batch=2, heads=4, kv_heads=2, length=5, width=16, turned=None, tables=None):
    q, k = torch.randn(batch, heads, length, width), torch.randn(batch, kv_heads, length, width)
    angles = torch.randn(tables or batch, length, (turned or width) // 2).repeat(1, 1, 2)
    return q, k, angles.cos(), angles.sin()


def rotated(x, cos, sin):
    half = cos.shape[-1] // 2
    cos, sin = cos[..., :half].unsqueeze(-3), sin[..., :half].unsqueeze(-3)
    a, b, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), dim=-1)


def test_it_writes_q_and_k_and_returns_them():
    q, k, cos, sin = inputs()
    expected = rotated(q, cos, sin), rotated(k, cos, sin)
    found = apply_rope_base(q, k, cos, sin, partial_rotary_factor=1.0)
    assert found[0] is q
    assert found[1] is k
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize(("heads", "kv_heads"), [(1, 6), (6, 4), (5, 1), (40, 8), (9, 9)])
@pytest.mark.parametrize("length", [1, 5, 64])
def test_heads_of_any_number_go_with_their_tiles(heads, kv_heads, length):
    q, k, cos, sin = inputs(heads=heads, kv_heads=kv_heads, length=length)
    expected = rotated(q, cos, sin), rotated(k, cos, sin)
    torch.testing.assert_close(apply_rope_base(q, k, cos, sin), expected, **CLOSE)


def test_one_position_comes_back_with_the_strides_of_a_view():
    q, k, cos, sin = inputs(length=1)
    q = q.transpose(1, 2).contiguous().transpose(1, 2)
    found, _ = apply_rope_base(q, k, cos, sin)
    assert found.data_ptr() == q.data_ptr()
    assert found.stride() == q.view_as(q).stride() == (64, 16, 16, 1)


def test_parts_of_one_projection_are_rotated_where_they_lie():
    packed = torch.randn(2, 5, 8, 16)
    q, k, v = packed.transpose(1, 2).split([4, 2, 2], dim=1)
    _, _, cos, sin = inputs()
    expected = torch.cat((rotated(q, cos, sin), rotated(k, cos, sin), v), dim=1)
    apply_rope_base(q, k, cos, sin)
    torch.testing.assert_close(packed.transpose(1, 2), expected, **CLOSE)


@pytest.mark.parametrize("form", ["two axes", "one for all", "longer", "half", "expanded", "another dtype", "strided"])
def test_tables_of_every_form(form):
    q, k, cos, sin = inputs(tables=1)
    expected = rotated(q, cos, sin), rotated(k, cos, sin)
    change = {
        "two axes": lambda t: t[0],
        "one for all": lambda t: t,
        "longer": lambda t: torch.cat((t, torch.full_like(t, torch.nan)), dim=1),
        "half": lambda t: t[..., :8].contiguous(),
        "expanded": lambda t: t.expand(2, -1, -1),
        "another dtype": lambda t: t.to(torch.bfloat16).float().to(torch.bfloat16),
        "strided": lambda t: torch.stack((t, torch.full_like(t, torch.nan)), dim=-1).flatten(-2)[..., ::2],
    }[form]
    close = {"rtol": 2e-2, "atol": 2e-2} if form == "another dtype" else CLOSE
    torch.testing.assert_close(apply_rope_base(q, k, change(cos), change(sin)), expected, **close)


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_gradients_are_rotated_back_and_those_given_stay(factor):
    q, k, cos, sin = inputs(turned=int(16 * factor))
    given = torch.randn_like(q), torch.randn_like(k).transpose(2, 3).contiguous().transpose(2, 3)
    kept = [one.clone() for one in given]
    leaves = [one.clone().requires_grad_() for one in (q, k)]
    wanted = torch.autograd.grad([rotated(one, cos, sin) for one in leaves], leaves, given)
    own = [one.clone().requires_grad_() for one in (q, k)]
    got = torch.autograd.grad(apply_rope_base(*own, cos, sin, partial_rotary_factor=factor), own, given)
    torch.testing.assert_close(got, wanted, **CLOSE)
    assert all(one.is_contiguous() for one in got)
    assert all(torch.equal(one, before) for one, before in zip(given, kept, strict=True))


def test_only_one_of_the_two_may_ask_for_a_gradient():
    q, k, cos, sin = inputs()
    q.requires_grad_()
    own, _ = apply_rope_base(q, k, cos, sin)
    own.sum().backward()
    (wanted,) = torch.autograd.grad(rotated(q, cos, sin).sum(), q)
    torch.testing.assert_close(q.grad, wanted, **CLOSE)


def test_tables_have_no_gradient_and_say_so():
    q, k, cos, sin = inputs()
    own, _ = apply_rope_base(q.requires_grad_(), k, cos.requires_grad_(), sin)
    with pytest.raises(NotImplementedError, match="cos and sin have no gradient"):
        own.sum().backward()


def test_autograd_notices_that_q_was_written_over():
    q, k, cos, sin = inputs()
    weight = torch.randn_like(q, requires_grad=True)
    product = weight * q
    apply_rope_base(q, k, cos, sin)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


REFUSED = {
    "rank": (lambda q, k, c, s: (q[0], k, c, s), ValueError, r"q must have 4 dimensions"),
    "lengths": (lambda q, k, c, s: (q, k[:, :, 1:], c, s), ValueError, "differ in more than heads"),
    "short tables": (lambda q, k, c, s: (q, k, c[:, 1:], s), ValueError, r"cos has shape \(2, 4, 16\)"),
    "narrow tables": (lambda q, k, c, s: (q, k, c, s[..., :4]), ValueError, r"sin has shape \(2, 5, 4\)"),
    "batches": (lambda q, k, c, s: (q, k, c.repeat(2, 1, 1), s), ValueError, r"expected \(1 or 2, 5, at least 8\)"),
    "dtypes of q and k": (lambda q, k, c, s: (q, k.half(), c, s), LaunchError, "k is torch.float16, but its partner"),
    "dtypes of tables": (lambda q, k, c, s: (q, k, c, s.half()), LaunchError, "sin is torch.float16, but its partner"),
    "dtype": (lambda q, k, c, s: (q.double(), k.double(), c, s), LaunchError, "q has dtype torch.float64"),
    "dtype of tables": (lambda q, k, c, s: (q, k, c.double(), s.double()), LaunchError, "cos has dtype torch.float64"),
    "expanded": (lambda q, k, c, s: (q[:1].expand(2, -1, -1, -1), k, c, s), LaunchError, "q has elements that share"),
    "one tensor twice": (lambda q, k, c, s: (q, q, c, s), LaunchError, "q and k are the same memory"),
    "devices": (lambda q, k, c, s: (q, k, c.to("meta"), s), LaunchError, "q is on cpu but cos is on meta"),
}


@pytest.mark.parametrize(("change", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused_by_name(change, error, text):
    arguments = change(*inputs())
    before = arguments[0].clone()
    with pytest.raises(error, match=f"apply_rope_base: .*{text}"):
        apply_rope_base(*arguments)
    assert torch.equal(arguments[0], before)


def test_a_factor_has_to_fit_the_tables():
    q, k, cos, sin = inputs()
    with pytest.raises(ValueError, match=r"cos has 16 columns, expected .*int\(16 \* 0.5\) = 8"):
        apply_rope_base(q, k, cos, sin, partial_rotary_factor=0.5)
    q, k, cos, sin = inputs(width=5, turned=4)
    with pytest.raises(ValueError, match="5 elements of a head were to be rotated, which has no halves"):
        apply_rope_base(q, k, cos, sin)


def test_a_quarter_is_rotated_for_qwen():
    q, k, cos, sin = inputs(width=64, turned=16)
    expected = rotated(q, cos, sin), rotated(k, cos, sin)
    torch.testing.assert_close(get_apply_rope_func("qwen3_5")(q, k, cos, sin), expected, **CLOSE)


def test_neighbours_are_rotated_for_deepseek_in_new_memory():
    q, k, cos, sin = inputs()
    table = torch.complex(cos[..., :8], sin[..., :8])
    before = q.clone()
    found, _ = get_apply_rope_func("deepseek")(q, k, table)
    product = torch.view_as_complex(q.unflatten(-1, (-1, 2))) * table.unsqueeze(1)
    torch.testing.assert_close(found, torch.cat((product.real, product.imag), dim=-1), **CLOSE)
    assert torch.equal(q, before)
    with pytest.raises(TypeError, match=r"must be a complex tensor, got torch\.float32"):
        get_apply_rope_func("deepseek")(q, k, cos)
    with pytest.raises(ValueError, match=r"q must be \(B, H, S, D\), D even"):
        get_apply_rope_func("deepseek")(q[..., :3], k, table)


def test_a_model_nobody_knows():
    with pytest.raises(ValueError, match="unsupported model 'gpt2'; there are: llama"):
        get_apply_rope_func("gpt2")
    assert get_apply_rope_func() is apply_rope_base


@pytest.mark.parametrize("shape", [(0, 4, 5, 16), (2, 4, 0, 16), (2, 0, 5, 16), (2, 4, 5, 0)])
def test_nothing_to_rotate(shape):
    batch, heads, length, width = shape
    q, k, cos, sin = inputs(batch, heads, heads, length, width, tables=1)
    with record("sm_90") as launches:
        apply_rope_base(q, k, cos, sin)
    assert launches == []


def test_q_without_heads_leaves_k_to_be_rotated():
    q, k, cos, sin = inputs(heads=0)
    expected = rotated(k, cos, sin)
    torch.testing.assert_close(apply_rope_base(q, k, cos, sin)[1], expected, **CLOSE)


def problem(batch, heads, kv_heads, length, width, half):
    def one(count):
        return TensorMeta(
            (batch, count, length, width), (count * length * width, length * width, width, 1), half16, True
        )

    half16 = torch.float16
    table = TensorMeta((batch, length, 2 * half), (0, 2 * half, 1), half16, True)
    return space.Problem(one(heads), one(kv_heads), table, table, half)


@pytest.mark.parametrize("length", [1, 65536, 70_000_000])
@pytest.mark.parametrize("batch", [1, 8, 70_000])
def test_every_tile_has_a_block_and_every_grid_can_be_launched(batch, length):
    given = problem(batch, 3, 1, length, 64, 32)
    config = space.default(given, H200)
    launch = space.launch(given, config, H200)
    x, y, z = launch.grid
    assert x == -(-3 // config.heads)
    assert max(y, z) <= space.LARGEST_GRID
    assert y * z >= batch * -(-length // (config.rows // config.heads))
    assert launch.options["FAR"] == int(batch > 65535 or length > 65536)


def test_blocks_beyond_a_second_axis_are_right(monkeypatch):
    """Where positions and batches share the grid's last two axes, some blocks have nothing to do."""
    monkeypatch.setattr(space, "LARGEST_GRID", 3)
    q, k, cos, sin = inputs(batch=5, length=7, tables=5)
    expected = rotated(q, cos, sin), rotated(k, cos, sin)
    with record("sm_90") as launches:
        apply_rope_base(q.to("meta"), k.to("meta"), cos.to("meta"), sin.to("meta"))
    assert launches[0].constants["FAR"] == 1
    torch.testing.assert_close(apply_rope_base(q, k, cos, sin), expected, **CLOSE)
