# SPDX-License-Identifier: MIT
"""cuTile Python kernels that have no Rust form; the refused line of each ends in the comment REFUSED."""

from __future__ import annotations

import cuda.tile as ct
from port_kernels import ConstInt
from port_launches import launch
from port_launches import meta


@ct.kernel
def prints(x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.printf("%f", ct.sum(tile, 0))  # REFUSED


@ct.kernel
def asserts(x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.assert_(ct.sum(tile, 0) > 0.0)  # noqa: PT009 REFUSED
    ct.store(x, index=(ct.bid(0),), tile=tile)


@ct.kernel
def running_product(x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.store(x, index=(ct.bid(0),), tile=ct.cumprod(tile, axis=0))  # REFUSED


@ct.kernel
def position_of_maximum(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.scatter(out, ct.bid(0), ct.argmax(tile, 0))  # REFUSED


@ct.kernel
def custom_reduction(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.scatter(out, ct.bid(0), ct.reduce(tile, 0, lambda a, b: a + b * 0.5, 0.0))  # REFUSED


@ct.kernel
def waits(x, WIDTH: ConstInt):
    ct.grid_dependency_control_wait()  # REFUSED
    ct.store(x, index=(ct.bid(0),), tile=ct.zeros((WIDTH,), dtype=ct.float32))


@ct.kernel
def replaces_part(x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    part = ct.zeros((WIDTH // 2,), dtype=ct.float32)
    ct.store(x, index=(ct.bid(0),), tile=ct.insert(tile, index=(1,), value=part))  # REFUSED


@ct.kernel
def overlapping_tiles(out, x, WIDTH: ConstInt):
    view = x.tiled_view((WIDTH,), traversal_steps=(WIDTH // 2,))
    tile = view.load((ct.bid(0),))  # REFUSED
    ct.store(out, index=(ct.bid(0),), tile=tile)


@ct.kernel
def packs(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.store(out, index=(ct.bid(0),), tile=ct.pack_to_bytes(tile))  # REFUSED


@ct.kernel
def truth_of_floats(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.store(out, index=(ct.bid(0),), tile=ct.astype(tile, ct.bool_))  # REFUSED


@ct.kernel
def returns_inside(out, x, limit: int, WIDTH: ConstInt):
    block = ct.bid(0)
    tile = ct.load(x, index=(block,), shape=(WIDTH,))
    if block > 1:
        if block > limit:
            return  # REFUSED
        tile = tile + 1.0
    ct.store(out, index=(block,), tile=tile)


@ct.kernel
def takes_pair(pair, WIDTH: ConstInt):
    ct.store(pair[0], index=(ct.bid(0),), tile=ct.load(pair[1], index=(ct.bid(0),), shape=(WIDTH,)))


UNKNOWN = "no Rust form of this operation is known"
# The construct of each kernel and the reason for its refusal.
REASONS = {
    "prints": ("tile_printf", UNKNOWN),
    "asserts": ("assert", UNKNOWN),
    "running_product": ("tile_scan", "no scan by mul is known"),
    "position_of_maximum": ("tile_reduce", "only sum, product, max and min of one tile have a Rust form"),
    "custom_reduction": ("tile_reduce", "no reduction by fma is known"),
    "waits": ("grid_dependency_control_wait", UNKNOWN),
    "replaces_part": ("tile_insert", UNKNOWN),
    "overlapping_tiles": ("make_strided_view", UNKNOWN),
    "packs": ("pack_to_bytes", "only elements below a byte are packed, f32 is not"),
    "returns_inside": ("return", "a return inside a branch that others continue has no Rust form"),
    "truth_of_floats": ("astype", "a float has no conversion to bool in the DSL"),
}


def launches():
    import torch

    v = meta(4096)
    i, b = meta(4096, dtype=torch.int32), meta(4096, dtype=torch.bool)
    return {
        "prints": (prints, v, 256),
        "asserts": (asserts, v, 256),
        "running_product": (running_product, v, 256),
        "position_of_maximum": (position_of_maximum, i, v, 256),
        "custom_reduction": (custom_reduction, v, v, 256),
        "waits": (waits, v, 256),
        "replaces_part": (replaces_part, v, 256),
        "overlapping_tiles": (overlapping_tiles, v, v, 256),
        "packs": (packs, meta(16384, dtype=torch.uint8), v, 256),
        "returns_inside": (returns_inside, v, v, 3, 256),
        "truth_of_floats": (truth_of_floats, b, v, 256),
    }


def refused_launch(name):
    kernel, *args = launches()[name]
    return launch(kernel, *args)
