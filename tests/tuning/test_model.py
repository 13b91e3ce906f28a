# SPDX-License-Identifier: MIT
"""The model: what must hold of any roofline, and the configurations whose times are known (docs/results, an H200)."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tuning_space import resources

from tilegym_rs_backend.ops import _matmul_space
from tilegym_rs_backend.ops._matmul_space import Config
from tilegym_rs_backend.tuning.machine import machine
from tilegym_rs_backend.tuning.model import predict
from tilegym_rs_backend.tuning.model import predict_compiled
from tilegym_rs_backend.tuning.model import predict_uncompiled
from tilegym_rs_backend.tuning.space import Work

H200 = machine("sm_90")
WORK = Work(
    tiles=1056,
    steps=64,
    step_bytes=32768,
    tile_bytes=32768,
    least_bytes=100 << 20,
    mma=((128, 128, 64),),
    mma_type="f16",
)


def us(work=WORK, resident=2, warps=4, stages=3.0, here=H200):
    return predict(work, resident, warps, stages, here).us


def product(m, n, k):
    operand = _matmul_space.Operand
    return _matmul_space.Problem(
        m, n, k, operand((m, k), (k, 1), True, False), operand((k, n), (n, 1), True, False), torch.bfloat16
    )


@pytest.mark.parametrize(
    ("change", "slower"),
    [
        ({"steps": 65}, True),
        ({"step_bytes": 65536}, True),
        ({"mma": ((128, 128, 64), (128, 128, 64))}, True),
        ({"step_ops": 200000.0}, True),
        ({"least_bytes": 2000 << 20}, True),
        ({"tile_bytes": 320000}, True),
        ({"mma_type": "f8"}, False),
        ({"persistent": True}, False),
    ],
)
def test_more_work_takes_longer(change, slower):
    changed = us(dataclasses.replace(WORK, **change))
    assert changed > us() if slower else changed < us()


def test_more_stages_and_more_blocks_hide_latency_until_another_limit():
    assert us(stages=1.0, resident=1) > us(stages=2.0, resident=1) > us(stages=8.0, resident=1)
    assert us(resident=1) > us(resident=2)
    assert us(stages=50.0) > 0.9 * us(stages=3.0)


def test_a_wave_that_is_not_full_costs_a_whole_one():
    def tiles(count):
        return us(dataclasses.replace(WORK, tiles=count))

    assert tiles(132 * 8) == tiles(132 * 7 + 1)
    assert tiles(132 * 8 + 1) > 1.1 * tiles(132 * 8)


def test_the_bound_is_named():
    def bound(**change):
        return predict(dataclasses.replace(WORK, **change), 2, 4, 8.0, H200).bound

    assert bound() == "mma"
    assert bound(step_bytes=131072) == "l2"
    assert bound(least_bytes=4000 << 20) == "dram"
    assert bound(step_ops=1e6) == "ops"
    assert predict(WORK, 1, 4, 1.0, H200).bound == "latency"
    assert predict(WORK, 2, 4, 8.0, H200).waves == 8.0


def test_nothing_to_multiply_leaves_the_memory():
    copy = Work(tiles=4096, steps=1, step_bytes=8192, tile_bytes=8192, least_bytes=64 << 20)
    found = predict_compiled(copy, resources(registers=32, shared=1024), 4, H200)
    assert found.bound == "dram"
    assert found.us == pytest.approx((64 << 20) / 4400e3 + 1, rel=0.05)


def test_hoppers_warpgroups_read_shared_memory_less_than_older_warps():
    large = dataclasses.replace(WORK, mma=((128, 256, 64),))
    assert us(large, here=H200) < us(large, here=machine("sm_80"))


MEASURED = [
    # shape, configuration, registers, threads, shared memory of its cubin, microseconds measured
    ((512, 512, 512), Config(64, 64, 64, num_worker_warps=4), 255, 256, 165096, 3.56),
    ((1024,) * 3, Config(64, 64, 128, occupancy=2, num_worker_warps=4), 128, 256, 107600, 6.75),
    ((1024,) * 3, Config(64, 128, 64, occupancy=2, num_worker_warps=8), 80, 384, 115816, 7.86),
    ((2048,) * 3, Config(128, 256, 32, num_worker_warps=8), 168, 384, 189592, 24.9),
    ((2048,) * 3, Config(128, 256, 64, 16, True, 6, 1, 8), 168, 384, 230560, 24.88),
    ((4096,) * 3, Config(128, 256, 32, num_worker_warps=8), 168, 384, 189592, 180.3),
    ((4096,) * 3, Config(128, 256, 64, 16, True, 6, 1, 8), 168, 384, 230560, 176.45),
    ((4096,) * 3, Config(128, 128, 64, occupancy=2), 128, 256, 107648, 184.2),
    ((4096, 8192, 2728), Config(128, 256, 64, 16, True, 6, 1, 8), 168, 384, 230560, 239.4),
]


@pytest.mark.parametrize(("shape", "config", "registers", "threads", "shared", "measured"), MEASURED)
def test_measured_configurations_come_out_within_a_tenth(shape, config, registers, threads, shared, measured):
    work = _matmul_space.work(product(*shape), config, H200)
    asked = resources(registers=registers, shared=shared, threads=threads)
    assert asked.unfit(config.occupancy, H200) == ""
    found = predict_compiled(work, asked, config.num_worker_warps or 4, H200)
    assert found.us == pytest.approx(measured, rel=0.1)


def test_before_compiling_the_blocks_asked_for_fill_shared_memory():
    work = _matmul_space.work(product(4096, 4096, 4096), Config(128, 128, 64), H200)
    one, two = (predict_uncompiled(work, occupancy, 4, H200).us for occupancy in (1, 2))
    assert 150 < two < one < 260
    short = dataclasses.replace(work, stages=1)
    assert predict_uncompiled(short, 2, 4, H200).us > two
