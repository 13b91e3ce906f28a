# SPDX-License-Identifier: MIT
"""How the kernels of port_kernels.py are launched by the translator's tests."""

from __future__ import annotations

import cuda.tile as ct
import port_kernels as kernels
import torch


def meta(*shape, dtype=torch.float32, strides=None):
    if strides is not None:
        return torch.empty_strided(shape, strides, dtype=dtype, device="meta")
    return torch.empty(*shape, dtype=dtype, device="meta")


def unaligned(rows, columns):
    """A tensor on the CPU whose address is no multiple of 16 bytes."""
    made = torch.empty(rows * columns + 8)
    offset = 1 if made.data_ptr() % 16 == 0 else (16 - made.data_ptr() % 16) // 4 + 1
    return made[offset : offset + rows * columns].view(rows, columns)


def launch(kernel, *args, grid=(4,)):
    """The captured launch of a kernel with these arguments."""
    from tilegym_rs_backend.port.capture import capture

    [found] = capture(lambda: ct.launch(torch.cuda.current_stream(), grid, kernel, args))
    return found


HALF = torch.float16
# The keys of launches(), known before anything is captured.
NAMES = (
    "scale_rows",
    "scale_rows_odd",
    "scale_rows_one",
    "scale_rows_transposed",
    "scale_rows_unaligned",
    "row_offsets_unaligned",
    "row_statistics",
    "row_statistics_odd",
    "histogram",
    "batched_outer",
    "pipelined",
    "halve_then_look",
    "sum_of_some",
    "returns_twice",
    "select",
    "stencil",
    "halve_until_small",
    "clipped",
    "product",
    "running_sum",
    "add_all",
    "row_offsets",
    "row_offsets_odd",
    "mixed_bits",
    "half_offset",
    "narrowed",
    "infinities_f16",
    "infinities_bf16",
    "infinities_f32",
    "selected_rows",
    "two_spans",
    "two_spans_one_turn",
    "decides",
    "in_order",
)


def launches():
    """Name -> a launch of each kernel; the names are those of the SASS test's cases."""
    x, h = meta(64, 128), meta(64, 128, dtype=HALF)
    v, w = meta(4096), meta(4096, dtype=torch.int32)
    return {
        "scale_rows": launch(kernels.scale_rows, h, h, 2.0, 16, 128),
        "scale_rows_odd": launch(
            kernels.scale_rows, meta(64, 100, strides=(101, 1)), meta(64, 100, strides=(101, 1)), 2.0, 16, 128
        ),
        "scale_rows_one": launch(kernels.scale_rows, meta(1, 128), meta(1, 128), 2.0, 1, 128),
        "scale_rows_transposed": launch(kernels.scale_rows, x, meta(64, 128, strides=(1, 64)), 2.0, 16, 128),
        "scale_rows_unaligned": launch(kernels.scale_rows, unaligned(64, 128), unaligned(64, 128), 2.0, 16, 128),
        "row_offsets_unaligned": launch(kernels.row_offsets, unaligned(64, 128), unaligned(64, 128), 16, 128),
        "row_statistics": launch(kernels.row_statistics, meta(64), meta(64), h, 64, 128),
        "row_statistics_odd": launch(kernels.row_statistics, meta(63), meta(63), meta(63, 100, dtype=HALF), 63, 128),
        "histogram": launch(kernels.histogram, meta(64, dtype=torch.int32), w, 256, 64),
        "batched_outer": launch(kernels.batched_outer, meta(4, 16, 32), meta(4, 16), meta(4, 32), 16, 32),
        "pipelined": launch(kernels.pipelined, v, v, v, 256, 3),
        "halve_then_look": launch(kernels.halve_then_look, v, v, 1.0, 256),
        "sum_of_some": launch(kernels.sum_of_some, v, v, 16, 3, 256),
        "returns_twice": launch(kernels.returns_twice, v, v, 3, 256),
        "select": launch(kernels.select, v, 256),
        "stencil": launch(kernels.stencil, v, v, 4096, 256),
        "halve_until_small": launch(kernels.halve_until_small, v, v, 1.0, 256),
        "clipped": launch(kernels.clipped, v, v, 3, 256, 0.1, False),
        "product": launch(
            kernels.product, meta(64, 64, dtype=HALF), h, meta(128, 64, dtype=HALF), 32, 32, 64, grid=(2, 2)
        ),
        "running_sum": launch(kernels.running_sum, x, x, 16, 128),
        "add_all": launch(kernels.add_all, v, [v, v, v], 256),
        "row_offsets": launch(kernels.row_offsets, x, x, 16, 128),
        "row_offsets_odd": launch(
            kernels.row_offsets, meta(50, 100, strides=(101, 1)), meta(50, 100, strides=(101, 1)), 16, 128
        ),
        "mixed_bits": launch(kernels.mixed_bits, w, w, 256),
        "half_offset": launch(kernels.half_offset, meta(4096, dtype=HALF), meta(4096, dtype=HALF), 256),
        "narrowed": launch(kernels.narrowed, meta(4096, dtype=torch.int16), w, 256),
        **{
            f"infinities_{name}": launch(kernels.infinities, meta(4096, dtype=dtype), meta(4096, dtype=dtype), 256)
            for name, dtype in (("f16", HALF), ("bf16", torch.bfloat16), ("f32", torch.float32))
        },
        "selected_rows": launch(kernels.selected_rows, h, h, w, 16, 64, grid=(4, 2)),
        "two_spans": launch(kernels.two_spans, v, v, 1000, 256),
        "two_spans_one_turn": launch(kernels.two_spans, v, v, 256, 256),
        "decides": launch(kernels.decides, v, v, 16, 256),
        "in_order": launch(kernels.in_order, meta(64, 32), meta(64, 32), meta(64), 20, 32, grid=(2,)),
    }
