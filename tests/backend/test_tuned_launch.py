# SPDX-License-Identifier: MIT
"""A stored choice reaches the launch: grid, constants, and plans that were made before it."""

from __future__ import annotations

import dataclasses
import importlib

import pytest
import torch

from tilegym_rs_backend import tune
from tilegym_rs_backend.target import record
from tilegym_rs_backend.tuning import here
from tilegym_rs_backend.tuning.choices import Choice
from tilegym_rs_backend.tuning.choices import Choices
from tilegym_rs_backend.tuning.space import show

pytestmark = pytest.mark.cargo


@pytest.fixture
def tuned_gpu(cuda_like, monkeypatch, tmp_path):
    """cuda:0 is a GPU with a name, choices lie in a folder of their own, and nothing may be measured."""
    monkeypatch.delenv(tune.DISABLE)
    store = Choices(tmp_path)
    monkeypatch.setattr(here, "choices", lambda: store)
    monkeypatch.setattr(here, "gpu_name", lambda device: "Fake GPU")
    monkeypatch.setattr(here, "driver_version", lambda: "1.0")

    def refuse(*args, **options):
        raise AssertionError("something is measured")

    monkeypatch.setattr(tune, "search", refuse)
    tune.forget()
    yield cuda_like
    tune.forget()


def keep(asked, **fields):
    """Store a choice for what an op asked: the default with other fields."""
    machine = tune.machine_of(asked.target)
    config = dataclasses.replace(asked.space.default(asked.problem, machine), **fields)
    key = here.key_of(asked.space, asked.problem, asked.library, machine, 0)
    here.choices().put(Choice(key, show(config), us=1.0))


def question(run):
    with tune.questions() as asked, record("sm_90"):
        run()
    return asked[0]


def grids(driver, run):
    start = driver.count
    run()
    return [tuple(launch.grid) for launch in driver.since(start)]


def test_matmul_launches_the_stored_choice(driver, library, tuned_gpu):
    matmul = importlib.import_module("tilegym_rs_backend.ops.matmul").matmul
    plain = [torch.zeros(512, 512, dtype=torch.float16) for _ in range(2)]
    asked = question(lambda: matmul(*plain))
    keep(asked, bm=128, bn=64, num_worker_warps=4)
    a, b = (tuned_gpu(each) for each in plain)
    assert grids(driver, lambda: matmul(a, b)) == [(4 * 8, 1, 1)]
    with tune.off():  # the plan of the choice is there already; any configuration will do
        assert len(grids(driver, lambda: matmul(a, b))) == 1
    # A recorder that stands for the GPU notes the same kernel and constants.
    with tune.standing_for(0), record("sm_90") as recorded:
        matmul(*plain)
    assert (recorded[0].grid, recorded[0].constants["BM"]) == ((32, 1, 1), 128)


def test_with_tuning_off_the_stored_choice_waits(driver, library, tuned_gpu, monkeypatch):
    matmul = importlib.import_module("tilegym_rs_backend.ops.matmul").matmul
    plain = [torch.zeros(512, 512, dtype=torch.bfloat16) for _ in range(2)]
    keep(question(lambda: matmul(*plain)), bm=128)
    a, b = (tuned_gpu(each) for each in plain)
    monkeypatch.setenv(tune.DISABLE, "1")
    assert grids(driver, lambda: matmul(a, b)) == [(8 * 8, 1, 1)]
    monkeypatch.delenv(tune.DISABLE)
    tune.forget()
    assert grids(driver, lambda: matmul(a, b)) == [(4 * 8, 1, 1)]


def test_softmax_measures_nothing_on_its_own_and_takes_what_was_stored(driver, library, tuned_gpu):
    softmax = importlib.import_module("tilegym_rs_backend.ops.softmax").softmax
    plain = torch.zeros(4096, 256, dtype=torch.float16)
    x = tuned_gpu(plain)
    assert grids(driver, lambda: softmax(x)) == [(512, 1, 1)]
    keep(question(lambda: softmax(plain)), rows=16)
    assert grids(driver, lambda: softmax(x)) == [(512, 1, 1)]  # the plan is kept
    tune.forget()
    assert grids(driver, lambda: softmax(x)) == [(256, 1, 1)]
