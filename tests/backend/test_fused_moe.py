# SPDX-License-Identifier: MIT
"""TileGym's mixture of experts, whose wrapper knows backends by name, from routing to result on a CPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("tilegym", reason="tilegym is not installed (pip install tilegym-rs[parity])")
pytest.importorskip("cuda.tile")

import torch

from tilegym_rs_backend.port.installed import backend_set
from tilegym_rs_backend.port.installed import import_tilegym

pytestmark = [pytest.mark.cargo, pytest.mark.slow]


def test_fused_moe_under_our_backend_is_the_formula():
    import_tilegym()
    from tilegym.ops.moe_interface import fused_moe

    tokens, hidden, inner, experts, chosen = 5, 64, 32, 3, 2
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(tokens, hidden, generator=generator).mul_(0.3).half()
    w1 = torch.randn(experts, 2 * inner, hidden, generator=generator).mul_(0.2).half()
    w2 = torch.randn(experts, hidden, inner, generator=generator).mul_(0.2).half()
    weights, ids = torch.rand(tokens, experts, generator=generator).softmax(dim=1).topk(chosen, dim=1)
    with backend_set("cutile_rs"):
        found = fused_moe(x, w1, w2, weights, ids.to(torch.int32))
    h = torch.einsum("td,tkid->tki", x.double(), w1.double()[ids])
    a = torch.nn.functional.silu(h[..., :inner]) * h[..., inner:]
    expected = torch.einsum("tki,tkdi,tk->td", a, w2.double()[ids], weights.double())
    # Two products of half-precision tiles, each rounded to 11 bits: of values up to 0.3.
    torch.testing.assert_close(found.double(), expected, rtol=4e-3, atol=1e-3)
