# SPDX-License-Identifier: MIT
"""fused_linear_cross_entropy: chunks, targets that are none, memory, every configuration, and what is refused."""

from __future__ import annotations

import pytest
import torch
from spaces import apart_from_hints
from torch.nn.functional import cross_entropy

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.library import get_library
from tilegym_rs_backend.ops import _fused_linear_cross_entropy_space as space
from tilegym_rs_backend.ops.fused_linear_cross_entropy import fused_linear_cross_entropy
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tensors import meta_of
from tilegym_rs_backend.tuning.machine import machine

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def inputs(rows=12, hidden=8, width=70):
    return torch.randn(rows, hidden), torch.randn(width, hidden), torch.randint(0, width, (rows,))


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("chunk", [1, 5, 12, 4096])
def test_chunks_of_any_size_give_one_loss(chunk, reduction):
    x, weight, target = inputs()
    target[3:6] = -100
    found = fused_linear_cross_entropy(x, weight, target, chunk_size=chunk, reduction=reduction)
    assert found.shape == ()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, cross_entropy(x @ weight.t(), target, reduction=reduction), **CLOSE)


@pytest.mark.parametrize("width", [1, 33, 1024, 5000])
def test_every_configuration_gives_one_loss(width):
    logits = torch.randn(3, width) * 20
    logits[1] = -torch.inf
    logits[1, width // 2] = 3.0
    target = torch.tensor([0, width // 2, width - 1])
    loss = torch.empty(3)
    problem = space.Problem(meta_of(loss), meta_of(logits), meta_of(target), -100)
    for config in apart_from_hints(space.SPACE.candidates(problem, machine("sm_90")).kept):
        launch = space.launch(problem, config, machine("sm_90"))
        loss.fill_(torch.nan)
        launch.bind(get_library(), executing_target("sm_90"))(*(one.data_ptr() for one in (loss, logits, target)))
        torch.testing.assert_close(loss, cross_entropy(logits, target, reduction="none"), msg=str(config), **CLOSE)


def test_targets_that_are_none():
    """Ignored ones cost nothing and do not count; below 0 counts as 0; beyond the vocabulary there is no loss."""
    x, weight, target = inputs()
    assert fused_linear_cross_entropy(x, weight, torch.full_like(target, -100)) == 0.0
    assert fused_linear_cross_entropy(x, weight, torch.full_like(target, 7), ignore_index=7, reduction="sum") == 0.0
    below, zero = target.clone(), target.clone()
    below[2], zero[2] = -3, 0
    assert torch.equal(fused_linear_cross_entropy(x, weight, below), fused_linear_cross_entropy(x, weight, zero))
    target[2] = 70
    assert fused_linear_cross_entropy(x, weight, target).isnan()
    assert not fused_linear_cross_entropy(x, weight, target, ignore_index=70).isnan()


def test_batches_other_integers_and_no_rows():
    x, weight, target = inputs()
    expected = cross_entropy(x @ weight.t(), target)
    found = fused_linear_cross_entropy(x.view(3, 4, 8), weight, target.view(3, 4).int())
    torch.testing.assert_close(found, expected, **CLOSE)
    with record("sm_90") as launches:
        assert fused_linear_cross_entropy(x[:0], weight, target[:0]).shape == ()
    assert launches == []
    assert fused_linear_cross_entropy(x[:0], weight, target[:0]) == 0.0


def test_a_bias_is_plain_pytorch_with_its_gradient():
    x, weight, target = inputs()
    bias = torch.randn(70, requires_grad=True)
    found = fused_linear_cross_entropy(x, weight, target, bias)
    expected = cross_entropy(torch.nn.functional.linear(x, weight, bias), target)
    assert torch.equal(found, expected)
    assert found.requires_grad


def test_without_a_bias_there_is_no_gradient_and_that_is_said():
    x, weight, target = inputs()
    found = fused_linear_cross_entropy(x.requires_grad_(), weight, target)
    with pytest.raises(NotImplementedError, match="fused_linear_cross_entropy has no backward"):
        found.backward()


def test_bad_input_is_refused_by_name():
    x, weight, target = inputs()
    with pytest.raises(ValueError, match="unsupported reduction 'none'; there are: mean, sum"):
        fused_linear_cross_entropy(x, weight, target, reduction="none")
    with pytest.raises(ValueError, match="chunk_size is 0"):
        fused_linear_cross_entropy(x, weight, target, chunk_size=0)
    with pytest.raises(ValueError, match=r"and 11 targets do not fit"):
        fused_linear_cross_entropy(x, weight, target[1:])
    with pytest.raises(ValueError, match=r"weight \(70, 7\) and 12 targets do not fit"):
        fused_linear_cross_entropy(x, weight[:, 1:], target)
    with pytest.raises(ValueError, match="weight has no rows"):
        fused_linear_cross_entropy(x, weight[:0], target)
    with pytest.raises(LaunchError, match=r"hidden_states is torch\.float32 but weight torch\.float16"):
        fused_linear_cross_entropy(x, weight.half(), target)
    with pytest.raises(LaunchError, match=r"target has dtype torch\.float32; targets are integers"):
        fused_linear_cross_entropy(x, weight, target.float())
    with pytest.raises(LaunchError, match=r"hidden_states has dtype torch\.float64"):
        fused_linear_cross_entropy(x.double(), weight.double(), target)
    with pytest.raises(TypeError, match=r"weight must be a torch\.Tensor, got NoneType"):
        fused_linear_cross_entropy(x, None, target)
