# SPDX-License-Identifier: MIT
"""splitk_reduce, mhc_sinkhorn, mhc_apply_residual: every variant computes the same, and what is refused."""

from __future__ import annotations

import pytest
import torch
from spaces import apart_from_hints

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.library import get_library
from tilegym_rs_backend.ops import _mhc_apply_residual_space
from tilegym_rs_backend.ops import _mhc_sinkhorn_space
from tilegym_rs_backend.ops import _splitk_reduce_space
from tilegym_rs_backend.ops.mhc_apply_residual import mhc_apply_residual
from tilegym_rs_backend.ops.mhc_sinkhorn import mhc_sinkhorn
from tilegym_rs_backend.ops.splitk_reduce import splitk_reduce
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tensors import meta_of
from tilegym_rs_backend.tuning.machine import machine

H200 = machine("sm_90")


@pytest.fixture(autouse=True)
def execute(library, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")


def merged(partials, lse):
    share = torch.softmax(lse.double() * torch.tensor(2.0).double().log(), dim=-1)
    return (share.unsqueeze(-1) * partials.double()).sum(dim=-2)


@pytest.mark.parametrize("splits", [1, 5, 16, 100])
@pytest.mark.parametrize("width", [64, 200])
def test_every_configuration_merges_alike(splits, width):
    partials, lse = torch.randn(2, 3, splits, width), torch.randn(2, 3, splits) * 8
    out = torch.empty(2, 3, width)
    problem = _splitk_reduce_space.Problem(meta_of(out), meta_of(partials), meta_of(lse))
    kept = apart_from_hints(_splitk_reduce_space.SPACE.candidates(problem, H200).kept)
    assert {config.chunk == 0 for config in kept} == ({True, False} if splits > 16 else {True})
    for config in kept:
        launch = _splitk_reduce_space.launch(problem, config, H200)
        run = launch.bind(get_library(), executing_target("sm_90"))
        out.fill_(torch.nan)
        run(out.data_ptr(), partials.data_ptr(), lse.data_ptr())
        torch.testing.assert_close(out.double(), merged(partials, lse), rtol=1e-5, atol=1e-5, msg=str(config))


def test_the_result_may_have_any_strides_and_another_dtype():
    partials, lse = torch.randn(2, 3, 4, 32), torch.randn(2, 3, 4).half()
    out = torch.empty(32, 3, 2, dtype=torch.bfloat16).permute(2, 1, 0)
    before = out._version
    assert splitk_reduce(partials, lse, out, 512, BLOCK=3) is out
    assert out._version > before
    torch.testing.assert_close(out.double(), merged(partials, lse), rtol=1e-2, atol=1e-2)


def test_splits_that_do_not_fit_are_refused_by_name():
    partials, lse, out = torch.randn(2, 3, 4, 32), torch.randn(2, 3, 4), torch.empty(2, 3, 32)
    with pytest.raises(ValueError, match=r"splitk_reduce: attn_splitk_out must be \(B, H, splits, D\)"):
        splitk_reduce(partials[0], lse, out, 1)
    with pytest.raises(ValueError, match=r"lse_splitk_out has shape \(2, 3, 3\), expected \(2, 3, 4\)"):
        splitk_reduce(partials, lse[..., 1:], out, 1)
    with pytest.raises(ValueError, match=r"attn_out has shape \(2, 3, 31\), expected \(2, 3, 32\)"):
        splitk_reduce(partials, lse, out[..., 1:], 1)
    with pytest.raises(LaunchError, match=r"attn_out has dtype torch\.float64"):
        splitk_reduce(partials, lse, out.double(), 1)
    with pytest.raises(LaunchError, match="attn_out has elements that share memory"):
        splitk_reduce(partials, lse, out[:1].expand(2, -1, -1), 1)
    with pytest.raises(LaunchError, match="attn_splitk_out is on cpu but lse_splitk_out is on meta"):
        splitk_reduce(partials, lse.to("meta"), out, 1)
    with pytest.raises(ValueError, match="there is no split to merge"):
        splitk_reduce(partials[:, :, :0], lse[..., :0], out, 1)
    with pytest.raises(TypeError, match=r"lse_splitk_out must be a torch\.Tensor, got NoneType"):
        splitk_reduce(partials, None, out, 1)


def test_a_merge_has_no_gradient_and_says_so():
    partials = torch.randn(1, 1, 2, 16, requires_grad=True)
    found = splitk_reduce(partials, torch.randn(1, 1, 2), torch.empty(1, 1, 16), 1)
    with pytest.raises(NotImplementedError, match="splitk_reduce has no backward"):
        found.sum().backward()


def balanced(y, n):
    result = y.clone()
    block = y[:, 2 * n : 2 * n + n * n].double().view(-1, n, n).exp()
    for _ in range(20):
        block = block / block.sum(2, keepdim=True)
        block = block / block.sum(1, keepdim=True)
    result[:, 2 * n : 2 * n + n * n] = block.view(-1, n * n)
    return result


@pytest.mark.parametrize("n", [1, 2, 8, 32])
def test_every_configuration_balances_alike(n):
    y = torch.randn(37, 2 * n + n * n + 3)
    problem = _mhc_sinkhorn_space.Problem(meta_of(y), n)
    for config in apart_from_hints(_mhc_sinkhorn_space.SPACE.candidates(problem, H200).kept):
        own = y.clone()
        run = _mhc_sinkhorn_space.launch(problem, config, H200).bind(get_library(), executing_target("sm_90"))
        run(own.data_ptr())
        torch.testing.assert_close(own, balanced(y, n), rtol=1e-5, atol=1e-7, msg=str(config))


def test_a_y_that_is_not_contiguous_stays_and_a_copy_is_returned():
    y = torch.randn(24, 5).t()
    before = y.clone()
    found = mhc_sinkhorn(y, 4)
    assert torch.equal(y, before)
    torch.testing.assert_close(found, balanced(before, 4), rtol=1e-5, atol=1e-7)
    own = before.contiguous()
    assert mhc_sinkhorn(own, 4) is own


def test_blocks_that_do_not_fit_are_refused_by_name():
    y = torch.randn(5, 24)
    for n in (0, 3, 64, -4):
        with pytest.raises(ValueError, match=f"mhc_sinkhorn: n is {n}; it has to be a power of two"):
            mhc_sinkhorn(y, n)
    with pytest.raises(ValueError, match=r"y has shape \(5, 23\); expected \(rows, at least 2 n \+ n \* n = 24\)"):
        mhc_sinkhorn(y[:, 1:].contiguous(), 4)
    with pytest.raises(LaunchError, match=r"y has dtype torch\.float64"):
        mhc_sinkhorn(y.double(), 4)
    with record("sm_90") as launches:
        mhc_sinkhorn(y[:0], 4)
    assert launches == []


def mixed(x, f_out, y, n):
    rows, width = f_out.shape
    h = y[:, 2 * n : 2 * n + n * n].double().view(rows, n, n)
    g = y[:, n : 2 * n].double().unsqueeze(2)
    return (h @ x.double().view(rows, n, width) + g * f_out.double().unsqueeze(1)).view(rows, n * width)


@pytest.mark.parametrize(
    ("n", "width", "dtype"),
    [
        (1, 300, torch.float32),
        (3, 1024, torch.float16),
        (4, 1100, torch.bfloat16),
        (6, 1100, torch.float32),
        (8, 1024, torch.bfloat16),
        (8, 300, torch.float16),
    ],
)
def test_every_configuration_mixes_alike(n, width, dtype):
    x, f_out, y = torch.randn(2, n * width), torch.randn(2, width), torch.randn(2, 2 * n + n * n + 1)
    x, f_out = x.to(dtype), f_out.to(dtype)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 8e-3, "atol": 1e-3}
    streams = meta_of(x.view(2, n, width))
    problem = _mhc_apply_residual_space.Problem(streams, streams, meta_of(f_out), meta_of(y))
    for config in apart_from_hints(_mhc_apply_residual_space.SPACE.candidates(problem, H200).kept):
        out = torch.full_like(x, torch.nan)
        run = _mhc_apply_residual_space.launch(problem, config, H200).bind(get_library(), executing_target("sm_90"))
        run(out.data_ptr(), x.data_ptr(), f_out.data_ptr(), y.data_ptr())
        torch.testing.assert_close(out.double(), mixed(x, f_out, y, n), msg=str(config), **close)


def test_streams_that_do_not_fit_are_refused_by_name():
    x, f_out, y = torch.randn(3, 64), torch.randn(3, 16), torch.randn(3, 24)
    with pytest.raises(ValueError, match="mhc_apply_residual: n is 0; it has to be at least 1"):
        mhc_apply_residual(x, f_out, y, 0)
    with pytest.raises(ValueError, match=r"do not fit n = 2: expected \(rows, n \* C\), \(rows, C\) and"):
        mhc_apply_residual(x, f_out, y, 2)
    with pytest.raises(ValueError, match="do not fit n = 4"):
        mhc_apply_residual(x, f_out, y[:, 1:], 4)
    with pytest.raises(ValueError, match="f_out must have 2 dimensions"):
        mhc_apply_residual(x, f_out[0], y, 4)
    with pytest.raises(LaunchError, match=r"y has dtype torch\.float64"):
        mhc_apply_residual(x, f_out, y.double(), 4)
    with pytest.raises(LaunchError, match="x is on cpu but f_out is on meta"):
        mhc_apply_residual(x, f_out.to("meta"), y, 4)
    with pytest.raises(NotImplementedError, match="mhc_apply_residual has no backward"):
        mhc_apply_residual(x.requires_grad_(), f_out, y, 4).sum().backward()
