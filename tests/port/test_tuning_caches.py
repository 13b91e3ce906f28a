# SPDX-License-Identifier: MIT
"""TileGym's caches put aside: what was in them comes back, and no kernel is dropped while the GPU may run it."""

from __future__ import annotations

import functools
import sys
import types
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch

from tilegym_rs_backend.port.tuning_caches import tuning_caches_aside


@pytest.fixture
def op(monkeypatch):
    """A module like those of TileGym's ops."""
    module = types.ModuleType("tilegym.ops.cutile.pretended")
    module._tune_cache = {"shape": "kernel"}
    module.kernel_of = functools.lru_cache(lambda shape: object())
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_caches_are_empty_inside_and_as_before_afterwards(op):
    before = op.kernel_of("shape")
    with tuning_caches_aside():
        assert op._tune_cache == {}
        assert op.kernel_of("shape") is not before
        op._tune_cache["other"] = "kernel"
    assert op._tune_cache == {"shape": "kernel"}
    assert op.kernel_of.cache_info().currsize == 0


def test_the_gpu_rests_before_anything_is_dropped(op, monkeypatch):
    held = []
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    monkeypatch.setattr(
        torch._C,
        "_cuda_synchronize",
        lambda: held.append((dict(op._tune_cache), op.kernel_of.cache_info().currsize)),
        raising=False,
    )
    op.kernel_of("shape")
    with tuning_caches_aside():
        op._tune_cache["other"] = "kernel"
        op.kernel_of("other")
    assert held == [({"shape": "kernel"}, 1), ({"other": "kernel"}, 1)]


def test_a_process_without_a_gpu_is_not_made_to_open_one(op, monkeypatch):
    monkeypatch.setattr(torch.cuda, "_initialized", False)
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: pytest.fail("asked for the GPU"), raising=False)
    with tuning_caches_aside():
        pass


def test_for_numbers_a_tuner_answers_with_its_smallest_tile():
    tune = pytest.importorskip("cuda.tile.tune")
    from tilegym_rs_backend.port.untuned import untuned

    large = SimpleNamespace(TILE_M=128, TILE_N=128, USE_TILE_TMA=False, num_ctas=1)
    small = SimpleNamespace(TILE_M=64, TILE_N=64, USE_TILE_TMA=True, num_ctas=2)
    smallest = SimpleNamespace(TILE_M=64, TILE_N=64, USE_TILE_TMA=True, num_ctas=1)
    with untuned():
        assert tune.exhaustive_search([large, small, smallest], None).best.config is smallest
