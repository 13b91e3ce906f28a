# SPDX-License-Identifier: MIT
"""Gradients nobody loses: what the ops cannot differentiate raises, and `out=` is seen by autograd."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

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


def negated(*shape):
    """A lazily negated view, as complex arithmetic gives."""
    return torch.view_as_complex(torch.randn(*shape, 2)).conj().imag


def silu_reference(x):
    hidden = x.shape[-1] // 2
    return torch.nn.functional.silu(x[..., :hidden]) * x[..., hidden:]


def test_a_lazily_negated_gradient_is_resolved():
    x, grad = torch.randn(2, 8, requires_grad=True), negated(2, 4)
    assert grad.is_neg()
    silu_and_mul(x).backward(grad)
    (expected,) = torch.autograd.grad(silu_reference(x), x, grad.resolve_neg())
    torch.testing.assert_close(x.grad, expected)
    a, b, grad = torch.randn(3, 4, requires_grad=True), torch.randn(4, 5, requires_grad=True), negated(3, 5)
    matmul(a, b).backward(grad)
    torch.testing.assert_close(a.grad, grad @ b.detach().t(), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(b.grad, a.detach().t() @ grad, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("op", [gelu, geglu, lambda x: swiglu(x, x)])
def test_gradients_of_activations_are_resolved_and_not_differentiated_twice(op):
    x = torch.randn(2, 8, requires_grad=True)
    grad = negated(*op(x).shape)
    (lazy,) = torch.autograd.grad(op(x), x, grad)
    (plain,) = torch.autograd.grad(op(x), x, grad.resolve_neg())
    assert torch.equal(lazy, plain)
    (first,) = torch.autograd.grad((op(x) ** 2).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        (first.sum() + x.sum()).backward()


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul_is_differentiable_twice(trans):
    a, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)

    def second(product):
        first = torch.autograd.grad((product**2).sum(), (a, b), create_graph=True)
        return torch.autograd.grad(first[0].sum() + first[1].sum(), (a, b))

    got = second(matmul(a, b, trans_a=trans[0], trans_b=trans[1]))
    expected = second((a.t() if trans[0] else a) @ (b.t() if trans[1] else b))
    for each, reference in zip(got, expected, strict=True):
        torch.testing.assert_close(each, reference, rtol=3e-2, atol=1e-1)


def test_the_gradient_of_silu_and_mul_is_not_lost_silently():
    x = torch.randn(2, 8, requires_grad=True)
    (first,) = torch.autograd.grad((silu_and_mul(x) ** 2).sum(), x, create_graph=True)
    assert first.requires_grad
    with pytest.raises(RuntimeError, match="differentiate twice"):
        (first.sum() + x.sum()).backward()


@pytest.mark.parametrize(
    "op",
    [
        softmax,
        silu_and_mul,
        lambda x: matmul(x, x),
        relu,
        gelu,
        geglu,
        lambda x: dropout(x, 1),
        lambda x: swiglu(x, torch.ones(4, 4)),
        lambda x: swiglu(torch.ones(4, 4), x),
    ],
)
def test_a_tangent_is_not_lost_silently(op):
    x = torch.randn(4, 4)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward mode AD"):
        op(forward_ad.make_dual(x, torch.ones_like(x)))


def test_autograd_notices_a_result_written_over_what_it_kept():
    weight, kept = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    product = weight * kept
    silu_and_mul(torch.randn(4, 8), out=kept)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_an_out_that_asks_for_a_gradient_is_refused():
    out = torch.empty(4, 4, requires_grad=True)
    with pytest.raises(ValueError, match="out= does not go with a gradient"):
        silu_and_mul(torch.randn(4, 8), out=out)
    with torch.no_grad():
        assert silu_and_mul(torch.randn(4, 8), out=out) is out
