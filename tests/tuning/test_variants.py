# SPDX-License-Identifier: MIT
"""Every kernel and schedule of matmul's space computes the same: executed from bytecode on the CPU."""

from __future__ import annotations

import pytest
import torch

from tilegym_rs_backend.library import get_library
from tilegym_rs_backend.ops._matmul_space import SPACE
from tilegym_rs_backend.ops._matmul_space import Config
from tilegym_rs_backend.ops._matmul_space import Operand
from tilegym_rs_backend.ops._matmul_space import Problem
from tilegym_rs_backend.ops.matmul import matmul
from tilegym_rs_backend.target import executing_target
from tilegym_rs_backend.tuning.job import differs
from tilegym_rs_backend.tuning.machine import machine

pytestmark = pytest.mark.cargo
M, N, K = 100, 75, 70
TILE = Config(32, 32, 32)
PERSISTENT = Config(32, 32, 32, group=2, persistent=True, latency=4, occupancy=1, num_worker_warps=8)


def inputs(dtype, trans_a=False, trans_b=False):
    generator = torch.Generator().manual_seed(1)
    shapes = ((K, M) if trans_a else (M, K)), ((N, K) if trans_b else (K, N))
    return [torch.empty(shape).normal_(0, 0.5, generator=generator).to(dtype) for shape in shapes]


@pytest.mark.parametrize("config", [TILE, PERSISTENT], ids=["tile", "persistent"])
@pytest.mark.parametrize(
    ("dtype", "error"),
    [
        (torch.float32, 2e-3),
        (torch.float16, 1e-3),
        (torch.bfloat16, 8e-3),
        (torch.float8_e4m3fn, 0.05),
        (torch.float8_e5m2, 0.1),
    ],
)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(False, False), (True, True)])
def test_each_variant_computes_the_product(config, dtype, error, trans_a, trans_b):
    a, b = inputs(dtype, trans_a, trans_b)
    problem = Problem(
        M,
        N,
        K,
        Operand(tuple(a.shape), a.stride(), not a.data_ptr() & 15, trans_a),
        Operand(tuple(b.shape), b.stride(), not b.data_ptr() & 15, trans_b),
        dtype,
    )
    # Three multiprocessors, so that a persistent block has several tiles.
    launch = SPACE.launch(problem, config, machine("sm_90", 3))
    assert launch.grid == ((3, 1, 1) if config.persistent else (12, 1, 1))
    c = torch.zeros(M, N).to(dtype)
    launch.bind(get_library(), executing_target("sm_90"))(c.data_ptr(), a.data_ptr(), b.data_ptr())
    exact = (a.double().t() if trans_a else a.double()) @ (b.double().t() if trans_b else b.double())
    assert float((c.double() - exact).norm() / exact.norm()) < error


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_the_op_takes_fp8(dtype, monkeypatch):
    monkeypatch.setenv("TILEGYM_RS_CPU", "execute")
    a, b = inputs(dtype)
    c = matmul(a, b)
    assert (c.dtype, tuple(c.shape)) == (dtype, (M, N))
    assert differs(c, (a.double() @ b.double()).to(dtype)) == ""
