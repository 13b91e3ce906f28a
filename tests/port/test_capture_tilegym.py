# SPDX-License-Identifier: MIT
"""Capturing TileGym's own cuTile Python ops, without a GPU."""

from __future__ import annotations

import os
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cuda.tile")
pytest.importorskip("tilegym")

from tilegym_rs_backend.port.capture import bytecode  # noqa: E402
from tilegym_rs_backend.port.capture import capture  # noqa: E402
from tilegym_rs_backend.port.capture import import_tilegym  # noqa: E402

SOFTMAX = [
    ({}, "_softmax_kernel", (528, 1, 1), {"occupancy": 4}),
    ({"use_tma": True}, "_softmax_kernel_tma", (264, 1, 1), {"occupancy": 2}),
    ({"use_chunked": True}, "_softmax_kernel_chunked", (528, 1, 1), {"occupancy": 4}),
    ({"use_multi_wave": True}, "_softmax_kernel_multi_wave_full_row_reg_cached_ldg", (4096, 1, 1), {}),
]
MATMUL = [
    ({}, "_matmul_kernel", (16, 1, 1), {"num_ctas": 1, "occupancy": 1}),
    ({"static_persistent": True}, "_static_persistent_matmul_kernel", None, None),
    ({"static_persistent": True, "trans_b": True}, "_static_persistent_matmul_kernel", None, None),
]
DTYPES = ["float16", "float32", "bfloat16"]


@pytest.fixture(scope="module")
def ops():
    before = os.environ.get("TILECPP_NVCC_PATH")
    tilegym = import_tilegym()
    assert os.environ.get("TILECPP_NVCC_PATH") == before
    assert import_tilegym() is tilegym
    return tilegym.ops


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("options", "name", "grid", "hints"), SOFTMAX, ids=[case[1] for case in SOFTMAX])
def test_softmax(ops, dtype, options, name, grid, hints):
    x = torch.empty(4096, 1000, dtype=getattr(torch, dtype), device="meta")
    [launch] = capture(lambda: ops.softmax(x, backend="cutile", **options))
    assert (launch.name, launch.grid, dict(launch.hints)) == (name, grid, hints)
    assert bytecode(launch)[:8] == b"\x7fTileIR\x00"


@pytest.mark.parametrize("dtype", DTYPES)
def test_silu_and_mul_and_its_tuning_space(ops, dtype):
    x = torch.empty(64, 2048, dtype=getattr(torch, dtype), device="meta")
    found = capture(lambda: ops.silu_and_mul(x, backend="cutile"), tuning="all")
    assert len(found) > 2
    assert not found[-1].candidate
    assert {launch.name for launch in found} == {"_silu_and_mul_kernel_row_wise"}
    assert len({tuple(sorted(launch.hints.items())) for launch in found if launch.candidate}) == len(found) - 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("options", "name", "grid", "hints"), MATMUL, ids=["plain", "persistent", "persistent-nt"])
def test_matmul(ops, dtype, options, name, grid, hints):
    x = torch.empty(512, 512, dtype=getattr(torch, dtype), device="meta")
    [launch] = capture(lambda: ops.matmul(x, x, backend="cutile", **options))
    assert launch.name == name
    assert grid is None or (launch.grid, dict(launch.hints)) == (grid, hints)
    assert len(bytecode(launch)) > 1000


def test_the_arch_decides_the_configurations_and_nothing_is_remembered(ops):
    x = torch.empty(512, 512, dtype=torch.float16, device="meta")

    def tiles(arch):
        [launch] = capture(lambda: ops.matmul(x, x, backend="cutile"), arch)
        return launch.constants["TILE_SIZE_N"]

    assert [tiles("sm_90"), tiles("sm_120"), tiles("sm_90")] == [128, 64, 128]


def test_a_cache_that_a_class_holds_is_aside_too(ops):
    from pytest_cutile_rs.suites import suites
    from tilegym_rs_backend.port.launches import case_launches

    suite = suites()["recurrent_gated_delta_rule"]
    case = next(each for each in suite.cases if each.id == "bf16-2x1x4x4x64x64")
    for _ in range(2):  # the first would leave a choice behind
        names = {launch.name for launch in case_launches(suite, case, "sm_90", "all") if launch.candidate}
        assert "_recurrent_gated_delta_rule_fwd_kernel_decode_vstream" in names


def test_a_live_tuner_cache_survives_a_capture(ops):
    module = sys.modules["tilegym.ops.cutile.softmax"]  # the package's attribute of that name is the op
    module._softmax_tune_cache["kept"] = "tuned"
    try:
        capture(lambda: ops.softmax(torch.empty(4, 8, device="meta"), backend="cutile"))
        assert module._softmax_tune_cache == {"kept": "tuned"}
    finally:
        module._softmax_tune_cache.clear()
