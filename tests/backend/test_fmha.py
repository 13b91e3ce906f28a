# SPDX-License-Identifier: MIT
"""What fmha promises besides the numbers of its cases; executed on the CPU."""

from __future__ import annotations

import math

import pytest
import torch

from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.launch import record
from tilegym_rs_backend.ops._fmha_space import SPACE
from tilegym_rs_backend.ops._fmha_space import Problem
from tilegym_rs_backend.ops._fmha_space import heads_at_once
from tilegym_rs_backend.ops.fmha import arguments
from tilegym_rs_backend.ops.fmha import fmha
from tilegym_rs_backend.tensors import meta_of
from tilegym_rs_backend.tuning.machine import machine


def operands(shape=(1, 2, 2, 5, 5, 16), dtype=torch.float16, seed=0):
    b, h, h_kv, s, s_kv, d = shape
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.randn(extents, generator=generator).to(dtype) for extents in ((b, h, s, d), *[(b, h_kv, s_kv, d)] * 2)
    )


def expected(q, k, v, scale, causal=True):
    q, k, v = (x.to(torch.float64) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = scale * q @ k.transpose(-1, -2)
    if causal:
        rows = torch.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
        scores = scores.masked_fill(torch.arange(k.shape[2])[None] > rows, -math.inf)
    return torch.softmax(scores, -1) @ v


@pytest.mark.parametrize("dtype", [torch.float16, torch.float8_e5m2])
@pytest.mark.parametrize("scale", [0.0, -0.4, 2.0])
def test_any_scale(library, scale, dtype):
    q, k, v = operands(dtype=dtype)
    kept = q.clone()
    got = fmha(q, k, v, scaling=scale)
    near = 0.5 if dtype == torch.float8_e5m2 else 5e-3
    torch.testing.assert_close(got.to(torch.float64), expected(q, k, v, scale), rtol=near, atol=near)
    assert torch.equal(kept.to(torch.float32), q.to(torch.float32))


def test_the_result_is_contiguous_whatever_the_strides(library):
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in operands((2, 4, 2, 9, 20, 16)))
    got = fmha(q, k, v)
    assert got.is_contiguous()
    assert (got.shape, got.dtype) == (q.shape, q.dtype)
    torch.testing.assert_close(got.to(torch.float64), expected(q, k, v, 0.25), rtol=5e-3, atol=5e-3)


def test_a_query_before_the_first_key_is_nan_and_the_others_are_right(library):
    q, k, v = operands((1, 1, 1, 70, 40, 16))
    got = fmha(q, k, v)
    assert got[:, :, :30].isnan().all()
    torch.testing.assert_close(
        got[:, :, 30:].to(torch.float64), expected(q, k, v, 0.25)[:, :, 30:], rtol=5e-3, atol=5e-3
    )


def test_nothing_to_attend_to(library):
    q, k, v = operands((1, 2, 2, 3, 0, 16))
    assert fmha(q, k, v).isnan().all()
    q, k, v = operands((0, 2, 2, 3, 3, 16))
    assert fmha(q, k, v).shape == (0, 2, 3, 16)


def test_there_is_no_backward(library):
    q, k, v = operands()
    q.requires_grad_()
    with pytest.raises(NotImplementedError, match="fmha has no backward"):
        fmha(q, k, v).sum().backward()


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        (lambda q, k, v: (q[0], k, v), ValueError, r"q must have 4 dimensions \(B, H, S, D\), got shape \(2, 5, 16\)"),
        (lambda q, k, v: (q, k, v[:, :, :3]), ValueError, "they must agree"),
        (lambda q, k, v: (q[..., :8], k, v), ValueError, "differ in batch or head size"),
        (lambda q, k, v: (q, k[:, :1].expand(-1, 3, -1, -1), v[:, :1].expand(-1, 3, -1, -1)), ValueError, "a multiple"),
        (lambda q, k, v: (q, k[:, :0], v[:, :0]), ValueError, "a multiple of 0 key heads"),
        (lambda q, k, v: (q.float(), k.float(), v.float()), LaunchError, "q has dtype torch.float32"),
        (lambda q, k, v: (q, k.bfloat16(), v), LaunchError, "q is torch.float16 but k is torch.bfloat16"),
        (lambda q, k, v: (q, k, None), TypeError, "fmha: v"),
    ],
)
def test_refusals(library, change, error, text):
    with pytest.raises(error, match=text):
        fmha(*change(*operands()))


def problem(shape=(4, 32, 32, 4096, 4096, 128), dtype=torch.bfloat16, causal=True):
    return Problem(*map(meta_of, arguments(shape, dtype)), 0.1, causal)


@pytest.mark.parametrize(
    ("shape", "causal", "count"),
    [
        ((4, 32, 32, 4096, 4096, 128), False, 1),
        ((4, 32, 32, 4096, 4096, 128), True, 2),
        ((4, 32, 32, 1024, 1024, 128), True, 8),
        ((4, 32, 8, 4096, 4096, 128), True, 8),
        ((4, 32, 32, 65536, 65536, 128), True, 1),
        ((1, 3, 3, 16, 16, 64), True, 4),
    ],
)
def test_heads_that_run_at_once_share_l2(shape, causal, count):
    assert heads_at_once(problem(shape, causal=causal)) == count


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("dim", [64, 128, 256])
def test_defaults_keep_the_rules(arch, dim):
    for dtype in (torch.float16, torch.float8_e5m2):
        for causal in (False, True):
            one = problem((4, 32, 32, 8192, 8192, dim), dtype, causal)
            at = machine(arch)
            config = SPACE.default(one, at)
            assert SPACE.broken(one, config, at) in ("", "accumulators: fewer than 64 registers of each thread")


def test_grid_covers_every_tile_of_queries(library):
    with record("sm_90") as launches:
        fmha(*arguments((2, 6, 3, 130, 300, 64), torch.float16))
    [one] = launches
    assert one.grid == (3 * 12, 1, 1)
