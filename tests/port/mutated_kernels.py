# SPDX-License-Identifier: MIT
"""cuTile Python kernels that hold every construct the translator emits, small enough to be compiled by the dozen."""

from __future__ import annotations

import cuda.tile as ct
import port_launches
import torch
from port_kernels import ConstInt
from port_launches import launch
from port_launches import meta

RZ, APPROX = ct.RoundingMode.RZ, ct.RoundingMode.APPROX
ZERO = ct.PaddingMode.ZERO


@ct.kernel
def floats(out, x, y, scale: float, limit: float, WIDTH: ConstInt):
    at = ct.bid(0)
    a, b = ct.load(x, index=(at,), shape=(WIDTH,)), ct.load(y, index=(at,), shape=(WIDTH,))
    total = ct.add(a, b, rounding_mode=RZ, flush_to_zero=True)
    total = total - ct.truediv(a, b, rounding_mode=APPROX, flush_to_zero=True)
    total = total / ct.maximum(a, b) + ct.pow(a, b)
    total = total + ct.minimum(total, a * b + 0.75)
    scaled = scale - limit
    total = ct.where(total != b, total * scaled, -total)
    ct.store(out, index=(at,), tile=ct.where(ct.isnan(total), b, total))


@ct.kernel
def functions(out, x, y, WIDTH: ConstInt):
    at = ct.bid(0)
    a, b = ct.load(x, index=(at,), shape=(WIDTH,)), ct.load(y, index=(at,), shape=(WIDTH,))
    total = ct.exp2(a, flush_to_zero=True) + ct.rsqrt(b) + ct.sqrt(a, rounding_mode=RZ)
    total = total + ct.log(b) + ct.sin(a) + ct.abs(b) + ct.tanh(a, rounding_mode=APPROX) + ct.exp(a)
    ct.store(out, index=(at,), tile=-total)


@ct.kernel
def integers(out, x, y, n: int, limit: int, WIDTH: ConstInt):
    at = ct.bid(0) + n % 3 + n // limit
    a, b = ct.load(x, index=(at,), shape=(WIDTH,)), ct.load(y, index=(at,), shape=(WIDTH,))
    total = (a - b) * 7 + a // b + ct.maximum(a, b)
    total = (total & a) ^ (b | 12) + (~a) - (b >> 2) + (a << 3)
    word = ct.astype(total, ct.uint32) >> 5
    total = ct.astype(word, ct.int32) + ct.abs(a) - (-b)
    total = ct.where((total < b) | (a >= b), total, min(n, limit))
    ct.store(out, index=(at,), tile=total)


@ct.kernel
def shapes(out, x, rows, ROWS: ConstInt, COLS: ConstInt):
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(ROWS, COLS))
    turned = ct.permute(ct.permute(tile, (1, 0)) * 2.0, (1, 0))
    both = ct.cat((tile, turned), 1)
    part = ct.extract(both, index=(0, 1), shape=(ROWS, COLS))
    bits = ct.bitcast(part, ct.int32) + ct.arange(COLS, dtype=ct.int32)[None, :]
    numbers = ct.bitcast(bits, ct.float32)
    ct.store(rows, index=(ct.bid(0),), tile=ct.max(numbers, 1) + ct.sum(tile, 1) * ct.prod(tile, 1))
    ct.store(out, index=(ct.bid(0), 0), tile=ct.astype(ct.astype(numbers, ct.float16), ct.float32))


@ct.kernel
def conversions(out, flags, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    short = ct.astype(tile, ct.int16)
    wide = ct.astype(short, ct.int64) + ct.full((WIDTH,), -3, dtype=ct.int64)
    ct.store(flags, index=(ct.bid(0),), tile=ct.astype(wide, ct.bool_))
    ct.store(out, index=(ct.bid(0),), tile=ct.astype(wide, ct.float32) * 1.5 + ct.astype(tile, ct.float32))


@ct.kernel
def backwards(out, x, ROWS: ConstInt, COLS: ConstInt):
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(ROWS, COLS))
    ct.store(out, index=(ct.bid(0), 0), tile=ct.cumsum(tile, axis=1, reverse=True))


@ct.kernel
def updates(counts, old, x, WIDTH: ConstInt):
    at = ct.bid(0) * WIDTH + ct.arange(WIDTH, dtype=ct.int32)
    value = ct.gather(x, at)
    before = ct.atomic_max(counts, at, value, memory_order=ct.MemoryOrder.ACQ_REL, memory_scope=ct.MemoryScope.DEVICE)
    swapped = ct.atomic_cas(counts, at, before, value, check_bounds=False, memory_order=ct.MemoryOrder.RELAXED)
    ct.scatter(old, at, swapped)


@ct.kernel
def adds_tiles(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    out.tiled_view((WIDTH,)).atomic_store_add((0,), tile)


@ct.kernel
def integer_product(c, a, b, T: ConstInt):
    x, y = ct.load(a, index=(0, 0), shape=(T, T)), ct.load(b, index=(0, 0), shape=(T, T))
    ct.store(c, index=(0, 0), tile=ct.mma(x, y, ct.zeros((T, T), dtype=ct.int32)))


@ct.kernel
def views(out, x, n: int, ROWS: ConstInt, COLS: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    part = x.slice(axis=0, start=0, stop=n)
    first = ct.load(part, index=(i, j), shape=(ROWS, COLS), padding_mode=ZERO, latency=4)
    second = ct.load(x, index=(j, i), shape=(ROWS, COLS), order=(1, 0), padding_mode=ct.PaddingMode.NEG_INF)
    third = ct.load(x, index=(i, j), shape=(ROWS, COLS), allow_tma=False, padding_mode=ZERO)
    total = first + second + third
    for k in range(1, ct.num_tiles(x, 0, (ROWS, COLS)), 2):
        total = total + ct.load(x, index=(k, j), shape=(ROWS, COLS), padding_mode=ZERO)
    ct.store(out, index=(i, j), tile=total)


@ct.kernel
def rereads(x, WIDTH: ConstInt):
    for i in range(4):
        tile = ct.load(x, index=(i,), shape=(WIDTH,))
        ct.store(x, index=(i + 1,), tile=tile * 3.0)
        again = ct.load(x, index=(i + 2,), shape=(WIDTH,))
        ct.store(x, index=(i,), tile=again + tile)


@ct.kernel
def blocks(out, n: int, WIDTH: ConstInt):
    for i in range(ct.bid(1), n, ct.num_blocks(0)):
        ct.store(out, index=(i,), tile=ct.full((WIDTH,), 0.5, dtype=ct.float32))


@ct.kernel
def finds(out, x, n: int, WIDTH: ConstInt):
    while True:
        tile = ct.load(x, index=(n,), shape=(WIDTH,))
        n = n + 1
        if ct.sum(tile, 0) > 1.0:
            break
    ct.store(out, index=(0,), tile=tile)


@ct.kernel
def squares(out, sums, x, T: ConstInt):
    tile = ct.load(x, index=(0, 0), shape=(T, T))
    turned = ct.permute(tile, (1, 0))
    ct.store(sums, index=(0,), tile=ct.sum(turned * tile, 0))
    ct.store(out, index=(0, 0), tile=turned)


@ct.kernel
def refolds(out, x, ROWS: ConstInt, COLS: ConstInt):
    tile = ct.load(x, index=(0, 0), shape=(ROWS, COLS))
    ct.store(out, index=(0, 0), tile=ct.reshape(tile, (COLS, ROWS)))


@ct.kernel
def quick_product(c, a, b, T: ConstInt):
    x, y = ct.load(a, index=(0, 0), shape=(T, T)), ct.load(b, index=(0, 0), shape=(T, T))
    ct.store(c, index=(0, 0), tile=ct.mma(x, y, ct.zeros((T, T), dtype=ct.float32), use_fast_acc=True))


@ct.kernel
def states_facts(out, x, n: int, WIDTH: ConstInt):
    offset = ct.assume_divisible_by(n, 16)
    at = offset + ct.arange(WIDTH, dtype=ct.int32)
    ct.scatter(out, at, ct.gather(x, at, check_bounds=False), check_bounds=False)


def launches():
    """Name -> a launch of each kernel, those of port_kernels among them."""
    v, w = meta(4096), meta(4096, dtype=torch.int32)
    x = meta(64, 128)
    e = meta(32, 32, dtype=torch.float8_e4m3fn)
    b, u = meta(32, 32, dtype=torch.int8), meta(32, 32, dtype=torch.uint8)
    own = {
        "floats": launch(floats, v, v, v, 0.5, 2.0, 256),
        "functions": launch(functions, v, v, v, 256),
        "integers": launch(integers, w, w, w, 5, 7, 256),
        "shapes": launch(shapes, x, x, meta(64), 16, 64),
        "conversions": launch(conversions, v, meta(4096, dtype=torch.bool), w, 256),
        "backwards": launch(backwards, x, x, 16, 128),
        "updates": launch(updates, w, w, w, 256),
        "adds_tiles": launch(adds_tiles, v, v, 256),
        "integer_product": launch(integer_product, meta(32, 32, dtype=torch.int32), b, u, 32),
        "views": launch(views, x, x, 48, 16, 32, grid=(3, 2)),
        "rereads": launch(rereads, v, 256),
        "blocks": launch(blocks, v, 12, 256),
        "finds": launch(finds, v, v, 8, 256),
        "squares": launch(squares, meta(32, 32), meta(32), meta(32, 32), 32),
        "refolds": launch(refolds, meta(64, 16), meta(16, 64), 16, 64),
        "quick_product": launch(quick_product, meta(32, 32), e, e, 32),
        "states_facts": launch(states_facts, v, v, 32, 256),
    }
    return {**port_launches.launches(), **own}
