# SPDX-License-Identifier: MIT
"""TileGym's caches put aside: what was in them comes back, and no kernel is dropped while the GPU may run it."""

from __future__ import annotations

import functools
import sys
import types
import weakref
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

import torch

from tilegym_rs_backend.port.tuning_caches import tuning_caches_aside


class Kernel:
    """Its end can be seen."""


@pytest.fixture
def op(monkeypatch):
    """A module like those of TileGym's ops."""
    module = types.ModuleType("tilegym.ops.cutile.pretended")
    module._tune_cache = {"shape": "kernel"}
    module.kernel_of = functools.lru_cache(lambda shape: Kernel())
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


@pytest.fixture
def gpus(monkeypatch):
    """Two GPUs, the first of which this process uses; which were waited for, and a question to ask at that time."""
    found = types.SimpleNamespace(waited=[], current=0, ask=lambda: None)

    def wait():
        found.waited.append((found.current, found.ask()))

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    for name, value in {
        "_cuda_getDevice": lambda: found.current,
        "_cuda_getDeviceCount": lambda: 2,
        "_cuda_hasPrimaryContext": lambda device: device == 1,
        "_cuda_setDevice": lambda device: setattr(found, "current", device),
        "_cuda_synchronize": wait,
    }.items():
        monkeypatch.setattr(torch._C, name, value, raising=False)
    return found


def test_caches_are_empty_inside_and_as_before_afterwards(op):
    before = op.kernel_of("shape")
    with tuning_caches_aside(launches=True):
        assert op._tune_cache == {}
        assert op.kernel_of("shape") is not before
        op._tune_cache["other"] = "kernel"
    assert op._tune_cache == {"shape": "kernel"}
    assert op.kernel_of.cache_info().currsize == 0


def test_what_is_dropped_lives_until_the_gpus_in_use_are_at_rest(op, gpus):
    made = [weakref.ref(op.kernel_of("before"))]
    gpus.ask = lambda: [kernel() is not None for kernel in made]
    with tuning_caches_aside(launches=True):
        op._tune_cache["inside"] = Kernel()
        made += [weakref.ref(op._tune_cache["inside"]), weakref.ref(op.kernel_of("inside"))]
    assert gpus.waited == [(1, [True, True, True])]
    assert [kernel() for kernel in made] == [None, None, None]
    assert gpus.current == 0


def test_a_wait_that_fails_loses_nothing(op, gpus):
    def fails():
        raise RuntimeError("illegal memory access")

    gpus.ask = fails
    with pytest.raises(RuntimeError, match="illegal memory access"), tuning_caches_aside(launches=True):
        op._tune_cache["inside"] = Kernel()
    assert op._tune_cache == {"shape": "kernel"}
    assert gpus.current == 0


def test_no_gpu_is_waited_for_where_nothing_was_launched(op, gpus, monkeypatch):
    with tuning_caches_aside(launches=False):
        op._tune_cache["inside"] = Kernel()
    with tuning_caches_aside(launches=True):
        pass
    assert gpus.waited == []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    with tuning_caches_aside(launches=True):
        op._tune_cache["inside"] = Kernel()
    assert gpus.waited == []


def test_for_numbers_a_tuner_answers_with_its_smallest_tile():
    tune = pytest.importorskip("cuda.tile.tune")
    from tilegym_rs_backend.port.untuned import untuned

    large = SimpleNamespace(TILE_M=128, TILE_N=128, USE_TILE_TMA=False, num_ctas=1)
    small = SimpleNamespace(TILE_M=64, TILE_N=64, USE_TILE_TMA=True, num_ctas=2)
    smallest = SimpleNamespace(TILE_M=64, TILE_N=64, USE_TILE_TMA=True, num_ctas=1)
    with untuned():
        assert tune.exhaustive_search([large, small, smallest], None).best.config is smallest
