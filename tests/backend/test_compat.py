# SPDX-License-Identifier: MIT
"""A wrapper in the style of TileGym's bridge: its own cdef string, the five names, one changed import."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from tilegym_rs_backend.compat import autotune_launch
from tilegym_rs_backend.compat import bind_kernel_function_cffi
from tilegym_rs_backend.compat import check_rc
from tilegym_rs_backend.compat import make_tensor_desc
from tilegym_rs_backend.errors import LaunchError
from tilegym_rs_backend.errors import TilegymRsError

pytestmark = pytest.mark.cargo

CDEF = """
int32_t cutile_softmax_rows(
    const TensorDesc* out, const TensorDesc* x,
    int32_t ROWS, int32_t BLOCK, int32_t TMA,
    int32_t grid_x, int32_t grid_y, int32_t grid_z,
    int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps,
    int32_t device_id, uint64_t raw_stream);
"""


def bridge_softmax(x, configs):
    """The wrapper, as its author would have written it."""

    def kernel_fn(config):
        out = torch.empty_like(x)
        ffi, lib = bind_kernel_function_cffi("softmax", CDEF)
        descs = [make_tensor_desc(ffi, t) for t in (out, x)]
        grid = (x.shape[0], 1, 1)
        rc = lib.cutile_softmax_rows(*descs, 1, 128, 0, *grid, -1, config.OCCUPANCY, -1, x.device.index, 0x5000)
        check_rc(rc, "cutile_softmax_rows")
        return out

    return autotune_launch(
        kernel_fn,
        configs,
        key=(tuple(x.shape), x.dtype),
        kernel_name="softmax",
        timer=lambda call, warm, rep: fake_time(call),
    )


def fake_time(call):
    call()
    return 1.0


def test_a_bridge_wrapper_runs(driver, library, cuda_like):
    x = cuda_like(torch.randn(6, 100))
    start = driver.count
    result = bridge_softmax(x, [SimpleNamespace(OCCUPANCY=2)])
    (launch,) = driver.since(start)
    assert launch.first_param == result.output.data_ptr()
    assert tuple(launch.grid) == (6, 1, 1)
    assert launch.stream == 0x5000


def test_the_tuner_remembers_and_drops_what_fails(driver, library, cuda_like):
    x = cuda_like(torch.randn(7, 100))
    configs = [SimpleNamespace(OCCUPANCY=4), SimpleNamespace(OCCUPANCY=8)]
    driver.lib.fake_fail_next(1)
    first = bridge_softmax(x, configs)
    assert first.best_config is configs[1]
    assert "CUDA_ERROR_FAKE" in first.tuning_record[0][1]
    second = bridge_softmax(x, configs)
    assert second.cache_hit
    assert second.best_config is configs[1]


def test_all_configurations_failing_says_why(driver, library):
    def fails(config):
        raise TilegymRsError(f"no {config}")

    with pytest.raises(TilegymRsError, match="a: no a; b: no b"):
        autotune_launch(fails, ["a", "b"], key="never", timer=lambda call, warm, rep: fake_time(call))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("int32_t num_worker_warps,", ""),
        ("int32_t ROWS, int32_t BLOCK", "int32_t BLOCK, int32_t ROWS"),
        ("uint64_t raw_stream", "int32_t raw_stream"),
        ("int32_t cutile_softmax_rows", "void cutile_softmax_rows"),
        (CDEF.strip(), "int32_t cutile_softmax_rows();"),
        (CDEF.strip(), "int32_t cutile_softmax_rows(int32_t)"),
    ],
)
def test_a_cdef_that_disagrees_is_refused_by_name(library, before, after):
    with pytest.raises(LaunchError, match="cutile_softmax_rows disagrees"):
        bind_kernel_function_cffi("softmax", CDEF.replace(before, after))


def test_comments_in_a_cdef_are_no_part_of_it(library):
    text = "// the row kernel; see (x)\n" + CDEF.replace("int32_t BLOCK,", "int32_t BLOCK, /* columns, padded; */")
    assert bind_kernel_function_cffi("softmax", text)
    with pytest.raises(LaunchError, match="declares no cutile_<kernel>"):
        bind_kernel_function_cffi("softmax", f"/*{CDEF}*/")


def test_an_export_that_does_not_exist_is_named(library):
    with pytest.raises(LaunchError, match="no kernel 'nothing'"):
        bind_kernel_function_cffi("nothing", CDEF.replace("softmax_rows", "nothing"))


def test_descriptors_refuse_cpu_tensors(library):
    ffi, _ = bind_kernel_function_cffi("softmax", CDEF)
    with pytest.raises(LaunchError, match="on cpu"):
        make_tensor_desc(ffi, torch.zeros(2, 2))
