# SPDX-License-Identifier: MIT
"""Spaces: which candidates there are, and the shipped defaults of every op and architecture."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tuning_space import SPACE
from tuning_space import Config
from tuning_space import Problem

from tilegym_rs_backend.ops import _matmul_space
from tilegym_rs_backend.ops import _silu_and_mul_space
from tilegym_rs_backend.ops import _softmax_space
from tilegym_rs_backend.tensors import TensorMeta
from tilegym_rs_backend.tuning.machine import FAMILIES
from tilegym_rs_backend.tuning.machine import family
from tilegym_rs_backend.tuning.machine import machine
from tilegym_rs_backend.tuning.space import Rule
from tilegym_rs_backend.tuning.space import extent_bucket
from tilegym_rs_backend.tuning.space import show
from tilegym_rs_backend.tuning.space import text

H200 = machine("sm_90")


def product(m, n, k, dtype=torch.bfloat16, trans_a=False, trans_b=False, aligned=True):
    def operand(rows, columns, transposed):
        shape = (columns, rows) if transposed else (rows, columns)
        return _matmul_space.Operand(shape, (shape[1], 1), aligned, transposed)

    return _matmul_space.Problem(m, n, k, operand(m, k, trans_a), operand(k, n, trans_b), dtype)


def test_candidates_are_the_default_and_all_that_keep_the_rules_each_launch_once():
    found = SPACE.candidates(Problem(300), H200)
    assert found.kept[0] == Config(128, 1)
    assert sorted((c.tile, c.occupancy) for c in found.kept) == [
        (64, 1),
        (64, 2),
        (128, 1),
        (128, 2),
        (256, 1),
        (256, 2),
    ]
    assert found.dropped == {"tile: larger than the problem": 2}
    # A tile of 512 is launched as one of 256: the same launch, and no candidate of its own.
    assert len(SPACE.candidates(Problem(1000), H200).kept) == 6


def test_the_default_stays_even_where_it_breaks_a_rule():
    found = SPACE.candidates(Problem(100), H200)
    assert found.kept[0] == Config(128, 1)
    assert [c.tile for c in found.kept] == [128, 64, 64]


def test_a_union_of_tables_has_each_configuration_once():
    both = dataclasses.replace(SPACE, axes=({"tile": (64, 128)}, {"tile": (128,), "occupancy": (0, 4)}))
    assert list(both.configs()) == [Config(64), Config(128), Config(128, 4)]


@pytest.mark.parametrize(
    ("hints", "arch", "why"),
    [
        ({"num_cta_in_cga": 2}, "sm_80", "num_cta_in_cga: sm_80 has no clusters"),
        ({"num_cta_in_cga": 2}, "sm_90", ""),
        ({"num_worker_warps": 8, "occupancy": 8}, "sm_90", ""),
        ({"num_worker_warps": 8, "occupancy": 8}, "sm_120", "num_worker_warps x occupancy: a multiprocessor has 1536"),
    ],
)
def test_limits_of_the_hints_hold_for_every_space(hints, arch, why):
    assert SPACE.broken(Problem(300), Config(64, **hints), machine(arch)).startswith(why)
    assert bool(SPACE.broken(Problem(300), Config(64, **hints), machine(arch))) == bool(why)


def test_a_rule_sees_problem_configuration_and_machine():
    strict = dataclasses.replace(SPACE, rules=(Rule("few", lambda p, c, m: p.n // c.tile > m.sm_count),))
    assert strict.broken(Problem(64 * 133), Config(64), H200) == ""
    assert strict.broken(Problem(64 * 132), Config(64), H200) == "few"


def test_a_configuration_survives_its_table_and_another_table_is_none():
    config = Config(64, num_worker_warps=8)
    assert SPACE.read(show(config)) == config
    assert SPACE.read({"tile": 64, "warps": 8}) is None
    assert text(show(config)) == "tile=64 num_worker_warps=8"


@pytest.mark.parametrize(
    ("extent", "bucket"), [(1, 1), (5, 5), (7, 7), (8, 8), (9, 10), (11, 12), (17, 20), (4096, 4096), (4097, 5120)]
)
def test_extents_of_a_bucket_lie_within_a_quarter(extent, bucket):
    assert extent_bucket(extent) == bucket


def test_buckets_never_shrink_an_extent_and_never_grow_it_by_more_than_a_quarter():
    for extent in range(1, 5000):
        assert extent <= extent_bucket(extent) <= max(extent * 1.25, extent)


@pytest.mark.parametrize(
    ("arch", "served_by"),
    [("sm_75", "sm_80"), ("sm_86", "sm_80"), ("sm_89", "sm_80"), ("sm_103", "sm_100"), ("sm_121", "sm_120")],
)
def test_an_architecture_without_tables_has_those_of_the_newest_not_newer(arch, served_by):
    assert family(arch) == served_by
    assert machine(arch).arch == arch


@pytest.mark.parametrize("arch", FAMILIES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (1024, 1024, 1024), (33, 129, 65), (1, 1, 1)])
def test_every_default_of_matmul_fits_its_machine(arch, dtype, shape):
    here = machine(arch)
    problem = product(*shape, dtype)
    config = _matmul_space.SPACE.default(problem, here)
    per_thread = config.bm * config.bn / (32 * (config.num_worker_warps or 4) * max(config.num_cta_in_cga, 1))
    assert per_thread <= 128 or arch == "sm_100"  # whose accumulators lie in tensor memory
    stage = (config.bm + config.bn) * config.bk * dtype.itemsize * max(config.occupancy, 1)
    assert 2 * stage <= here.shared_bytes * max(config.num_cta_in_cga, 1)
    assert _matmul_space.SPACE.candidates(problem, here).kept[0] == config


def test_the_h200s_measured_defaults():
    def words(*shape, dtype=torch.bfloat16):
        return text(show(_matmul_space.SPACE.default(product(*shape, dtype), H200)))

    large = "bm=128 bn=256 bk=64 group=16 persistent=True latency=6 occupancy=1 num_worker_warps=8"
    assert words(4096, 4096, 4096) == words(2048, 6144, 4096) == large
    assert words(1024, 1024, 1024) == "bm=64 bn=128 bk=64 group=8 occupancy=1 num_worker_warps=4"
    assert words(512, 512, 512) == "bm=64 bn=64 bk=64 group=8 num_worker_warps=4"
    assert words(4096, 4096, 4096, dtype=torch.float32).startswith("bm=128 bn=256 bk=32")
    assert words(4096, 4096, 4096, dtype=torch.float8_e5m2).startswith("bm=256 bn=64 bk=128")


def test_the_last_wave_decides_the_default():
    """288 large tiles fill 2.2 waves of 132 multiprocessors, 576 of half the size 4.4, which is less than three."""

    def tile(*shape):
        config = _matmul_space.SPACE.default(product(*shape), H200)
        return config.bm, config.bn, config.persistent

    assert tile(3072, 3072, 768) == (128, 128, True)
    assert tile(3072, 6144, 2720) == (128, 128, True)
    assert tile(4096, 5120, 2720) == (128, 256, True)
    assert tile(640, 5120, 2560) == (128, 128, False)  # 200 tiles, two at a time on a multiprocessor
    assert tile(2048, 2048, 2048) == (128, 128, False)
    assert tile(2176, 2048, 2048) == (128, 128, True)  # 272 tiles are more than can be resident at once


def test_fp8_operands_across_k_cost_the_threads_work():
    config = _matmul_space.Config(128, 128, 128)
    work = _matmul_space.work
    fp8 = product(4096, 4096, 4096, torch.float8_e5m2)
    assert work(fp8, config, H200).step_ops == _matmul_space.TRANSPOSING_OPS * 128 * 128
    along = fp8._replace(b=fp8.b._replace(transposed=True))
    assert work(along, config, H200).step_ops == 0
    assert work(product(4096, 4096, 4096), config, H200).step_ops == 0


def test_matmuls_hopper_space_holds_what_was_measured_best():
    """docs/results and the first measurements: the winners at 1024, 2048 and 4096, 8192."""
    for shape, config in (
        ((1024,) * 3, _matmul_space.Config(64, 128, 64, occupancy=2, num_worker_warps=8)),
        ((4096,) * 3, _matmul_space.Config(128, 256, 32, occupancy=1, num_worker_warps=8)),
        ((8192,) * 3, _matmul_space.Config(128, 128, 64, occupancy=2, num_worker_warps=4)),
    ):
        assert config in _matmul_space.SPACE.candidates(product(*shape), H200).kept


def test_matmuls_rules_drop_what_cannot_be_fast():
    large = product(4096, 4096, 4096)

    def why(problem=large, **values):
        return _matmul_space.SPACE.broken(problem, _matmul_space.Config(**values), H200)

    assert why(bm=128, bn=256, bk=64, num_worker_warps=4) == "accumulators: more than 128 registers of each thread"
    assert why(bm=32, bn=256, bk=64, num_worker_warps=8) == "bm: too few rows for the tensor cores"
    assert why(product(16, 4096, 4096), bm=16, bn=128, bk=64, num_worker_warps=4) == ""
    assert why(product(16, 4096, 4096), bm=64, bn=128, bk=64) == "bm: a smaller tile covers all rows"
    assert why(bm=256, bn=128, bk=64, occupancy=2, num_worker_warps=8).startswith("accumulators: those of the blocks")
    assert why(bm=128, bn=128, bk=128, occupancy=2, num_worker_warps=8).startswith("shared memory: two stages")
    assert why(bm=128, bn=128, bk=64, num_cta_in_cga=2).startswith("num_cta_in_cga: two gain nothing")
    few = product(1024, 1024, 1024)
    assert why(few, bm=128, bn=128, bk=64, persistent=True, latency=4) == "persistent: no more tiles than blocks"


def test_matmuls_bucket_tells_layouts_apart():
    plain = _matmul_space.bucket(product(4096, 4096, 4096))
    assert plain == {
        "dtype": "bf16",
        "m": 4096,
        "n": 4096,
        "k": 4096,
        "trans_a": False,
        "trans_b": False,
        "bulk": True,
    }
    assert _matmul_space.bucket(product(4096, 4096, 4096, aligned=False))["bulk"] is False
    assert _matmul_space.bucket(product(4096, 4096, 4095))["bulk"] is False  # rows of a on odd addresses
    assert _matmul_space.bucket(product(4096, 4096, 4096, trans_b=True))["trans_b"] is True


def rows_of(shape, strides=None, dtype=torch.float16):
    return TensorMeta(shape, strides or (shape[1], 1), dtype, True)


@pytest.mark.parametrize("rows", [1, 131072])
@pytest.mark.parametrize("columns", [8, 1000, 32768, 50000])
@pytest.mark.parametrize("arch", FAMILIES)
def test_softmax_and_silu_defaults_are_candidates_of_their_spaces(rows, columns, arch):
    here = machine(arch)
    meta = rows_of((rows, columns))
    softmax = _softmax_space.Problem(meta, meta)
    kept = _softmax_space.SPACE.candidates(softmax, here).kept
    assert len(kept) > 1
    assert all(_softmax_space.SPACE.launch(softmax, each, here).options.get("BLOCK", 0) <= 32768 for each in kept)
    halves = TensorMeta((rows, 2, columns), (2 * columns, columns, 1), torch.float16, True)
    gate = _silu_and_mul_space.Problem(meta, halves)
    assert _silu_and_mul_space.SPACE.candidates(gate, here).kept


def test_gaps_leave_the_packed_kernels_out():
    strided = rows_of((4096, 1024), (2048, 1))
    kept = _softmax_space.SPACE.candidates(_softmax_space.Problem(rows_of((4096, 1024)), strided), H200).kept
    assert {each.variant for each in kept} == {"rows"}
    assert kept[0] == _softmax_space.Config("rows", occupancy=8, num_worker_warps=4)
