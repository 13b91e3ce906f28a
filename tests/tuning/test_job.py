# SPDX-License-Identifier: MIT
"""The tensors candidates run on, and the comparison of their results, on CPU tensors."""

from __future__ import annotations

import pytest
import torch
from tuning_space import SPACE
from tuning_space import Config
from tuning_space import Problem

from tilegym_rs_backend.ops._matmul_space import SPACE as MATMUL
from tilegym_rs_backend.tensors import TensorMeta
from tilegym_rs_backend.tuning.job import Spec
from tilegym_rs_backend.tuning.job import differs
from tilegym_rs_backend.tuning.job import launches_of
from tilegym_rs_backend.tuning.job import make_tensors
from tilegym_rs_backend.tuning.job import space_named
from tilegym_rs_backend.tuning.job import tensor_names
from tilegym_rs_backend.tuning.machine import machine
from tilegym_rs_backend.tuning.measure import Failed
from tilegym_rs_backend.tuning.space import Launch


def launch(**metas):
    return Launch("kernel", (1, 1, 1), {**metas, "n": 3}, {})


def test_tensors_are_as_described():
    one = launch(
        out=TensorMeta((8, 4), (4, 1), torch.float16, True),
        x=TensorMeta((8, 4), (6, 1), torch.bfloat16, False),
        ids=TensorMeta((8,), (1,), torch.int32, True),
        w=TensorMeta((4, 4), (1, 4), torch.float8_e5m2, True),
    )
    tensors = make_tensors([one], (), "cpu")
    assert tensor_names(one) == ["out", "x", "ids", "w"]
    x, ids, w = (tensors.of(name) for name in ("x", "ids", "w"))
    assert (x.shape, x.stride(), x.dtype) == ((8, 4), (6, 1), torch.bfloat16)
    assert x.data_ptr() % 16 == 2
    assert 0.2 < float(x.float().std()) < 0.8
    assert ids.tolist() == [0] * 8
    assert (w.stride(), w.dtype) == ((1, 4), torch.float8_e5m2)
    assert tensors.result is tensors.of("out")
    again = make_tensors([one], (), "cpu")
    assert torch.equal(again.of("x"), x)  # a new process has the same inputs


def test_what_a_kernel_overwrites_of_its_inputs_is_put_back():
    tensors = make_tensors([launch(x=TensorMeta((64,), (1,), torch.float32, True))], ("x",), "cpu")
    before = tensors.of("x").clone()
    tensors.spoil()
    assert torch.equal(tensors.of("x"), before)  # an input is not spoilt
    tensors.of("x").mul_(3)
    tensors.restore()
    assert torch.equal(tensors.of("x"), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn])
def test_a_result_is_spoilt_so_that_what_is_not_written_shows(dtype):
    tensors = make_tensors([launch(out=TensorMeta((64, 64), (64, 1), dtype, True))], (), "cpu")
    expected = tensors.result.clone()
    tensors.spoil()
    written = tensors.result.clone()
    written.view(torch.uint8 if dtype.itemsize == 1 else torch.int16)[:60] = expected.view(
        torch.uint8 if dtype.itemsize == 1 else torch.int16
    )[:60]
    assert differs(written, expected)


def test_results_may_differ_by_the_order_of_their_sums_alone():
    expected = torch.randn(256, 256)
    rounded = expected.bfloat16()
    assert differs(rounded, expected) == ""
    assert differs(expected.to(torch.float8_e4m3fn), expected) == ""
    assert "|difference| / |result| = 0.0" in differs(expected * 1.05, expected)
    one_tile_wrong = expected.clone()
    one_tile_wrong[:64, :64] = 0
    assert differs(one_tile_wrong, expected)
    assert differs(torch.zeros(4), torch.zeros(4)) == ""


def test_infinities_have_to_be_in_the_same_places():
    expected = torch.randn(16)
    expected[3] = float("inf")
    assert differs(expected.clone(), expected) == ""
    other = expected.clone()
    other[4] = float("nan")
    assert "infinities or NaNs in other places" in differs(other, expected)


def test_a_space_is_found_again_in_another_process_by_module_and_name():
    assert space_named("tilegym_rs_backend.ops._matmul_space", "matmul") is MATMUL
    assert MATMUL.launch.__module__ == "tilegym_rs_backend.ops._matmul_space"
    with pytest.raises(Failed, match="declares no space 'nothing'"):
        space_named("tilegym_rs_backend.ops._matmul_space", "nothing")


def test_launches_of_the_candidates():
    spec = Spec("tuning_space", "scale", Problem(1000), ({"tile": 64}, {"tile": 128, "occupancy": 2}), 0)
    first, second = launches_of(spec, "sm_90", 132)
    assert first == SPACE.launch(Problem(1000), Config(64), machine("sm_90"))
    assert second.options == {"TILE": 128, "occupancy": 2}


def test_scratch_has_room_for_the_launch_that_reaches_furthest():
    """A candidate with more blocks than the default has more rows of partial sums."""

    def blocks(count):
        return launch(
            out=TensorMeta((8,), (1,), torch.float32, True),
            partial=TensorMeta((count, 64), (64, 1), torch.float32, False),
        )

    tensors = make_tensors([blocks(2), blocks(7), blocks(3)], (), "cpu")
    partial = tensors.of("partial")
    assert partial.shape == (2, 64)
    behind = partial.untyped_storage().nbytes() - partial.storage_offset() * partial.element_size()
    assert behind == 7 * 64 * 4
