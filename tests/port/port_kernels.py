# SPDX-License-Identifier: MIT
"""cuTile Python kernels for the translator's tests; port_launches.py launches them."""

from __future__ import annotations

import cuda.tile as ct

ConstInt = ct.Constant[int]
ConstFloat = ct.Constant[float]
ConstBool = ct.Constant[bool]


@ct.kernel
def scale_rows(out, x, alpha: float, ROWS: ConstInt, COLS: ConstInt):
    row = ct.bid(0)
    tile = ct.load(x, index=(row, 0), shape=(ROWS, COLS), padding_mode=ct.PaddingMode.ZERO)
    scaled = ct.astype(tile, ct.float32) * alpha
    ct.store(out, index=(row, 0), tile=ct.astype(scaled, out.dtype))


@ct.kernel
def row_statistics(low, high, x, n_rows: int, COLS: ConstInt):
    for row in range(ct.bid(0), n_rows, ct.num_blocks(0)):
        columns = ct.arange(COLS, dtype=ct.int32)
        values = ct.gather(x, (row, columns), check_bounds=True, padding_value=0.0)
        values = ct.astype(values, ct.float32)
        ct.scatter(low, row, ct.min(values, 0))
        ct.scatter(high, row, ct.max(values, 0))


@ct.kernel
def histogram(counts, x, COLS: ConstInt, BINS: ConstInt):
    at = ct.bid(0) * COLS + ct.arange(COLS, dtype=ct.int32)
    bins = ct.gather(x, at, check_bounds=True, padding_value=0) % BINS
    ct.atomic_add(counts, bins, 1)


@ct.kernel
def batched_outer(out, a, b, N: ConstInt, M: ConstInt):
    batch = ct.bid(0)
    left = ct.reshape(ct.load(a, index=(batch, 0), shape=(1, N)), (N, 1))
    right = ct.load(b, index=(batch, 0), shape=(1, M))
    product = left * right
    ct.store(out, index=(batch, 0, 0), tile=ct.reshape(product, (1, N, M)))


@ct.kernel
def stencil(out, x, n: int, WIDTH: ConstInt):
    at = ct.bid(0) * WIDTH + ct.arange(WIDTH, dtype=ct.int32)
    left = ct.gather(x, at - 1, check_bounds=True, padding_value=0.0)
    middle = ct.gather(x, at, check_bounds=True, padding_value=0.0)
    right = ct.gather(x, at + 1, check_bounds=True, padding_value=0.0)
    ct.scatter(out, at, (left + middle + right) * 0.25)


@ct.kernel
def halve_until_small(out, x, limit: float, WIDTH: ConstInt):
    block = ct.bid(0)
    tile = ct.load(x, index=(block,), shape=(WIDTH,))
    steps = 0
    while ct.max(tile, 0) > limit:
        tile = tile * 0.5
        steps = steps + 1
    ct.store(out, index=(block,), tile=tile)


@ct.kernel
def clipped(out, x, limit: int, WIDTH: ConstInt, HALF_SCALE: ConstFloat, FLIP: ConstBool):
    block = ct.bid(0)
    if block >= limit:
        return
    tile = ct.load(x, index=(block,), shape=(WIDTH,))
    if block % 2 == 0:  # noqa: SIM108
        scaled = tile * (HALF_SCALE * 0.5)
    else:
        scaled = tile + HALF_SCALE
    if FLIP:
        scaled = -scaled
    ct.store(out, index=(block,), tile=scaled)


@ct.kernel
def product(c, a, b, TM: ConstInt, TN: ConstInt, TK: ConstInt):
    i, j = ct.bid(0), ct.bid(1)
    total = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, 1, (TM, TK))):
        x = ct.load(a, index=(i, k), shape=(TM, TK), padding_mode=ct.PaddingMode.ZERO)
        y = ct.load(b, index=(k, j), shape=(TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(x, y, total)
    ct.store(c, index=(i, j), tile=ct.astype(total, c.dtype))


@ct.kernel
def running_sum(out, x, ROWS: ConstInt, COLS: ConstInt):
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(ROWS, COLS))
    ct.store(out, index=(ct.bid(0), 0), tile=ct.cumsum(tile, axis=1))


@ct.kernel
def add_all(out, xs, WIDTH: ConstInt):
    total = ct.zeros((WIDTH,), dtype=ct.float32)
    for i in range(len(xs)):
        total = total + ct.load(xs[i], index=(ct.bid(0),), shape=(WIDTH,), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(ct.bid(0),), tile=total)


@ct.kernel
def narrowed(out, x, WIDTH: ConstInt):
    at = ct.arange(WIDTH, dtype=ct.int32) + ct.bid(0) * WIDTH
    wide = ct.gather(x, at, check_bounds=True, padding_value=0)
    ct.scatter(out, at, ct.astype(wide ^ 0x1E3779B9, ct.int16))


@ct.kernel
def mixed_bits(out, x, WIDTH: ConstInt):
    at = ct.arange(WIDTH, dtype=ct.int32) + ct.bid(0) * WIDTH
    bits = ct.astype(ct.gather(x, at, check_bounds=True, padding_value=0), ct.uint32)
    mixed = bits * ct.full((WIDTH,), 0xD2511F53, dtype=ct.uint32)
    ct.scatter(out, at, ct.astype(mixed >> 3, ct.int32))


@ct.kernel
def half_offset(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    ct.store(out, index=(ct.bid(0),), tile=tile + ct.full((WIDTH,), -0.7, dtype=x.dtype))


@ct.kernel
def row_offsets(out, x, ROWS: ConstInt, COLS: ConstInt):
    rows = ct.bid(0) * ROWS + ct.arange(ROWS, dtype=ct.int32)
    columns = ct.arange(COLS, dtype=ct.int32)
    tile = ct.gather(x, (rows[:, None], columns[None, :]), check_bounds=True, padding_value=1.0)
    ct.scatter(out, (rows[:, None], columns[None, :]), tile + 1.0)


@ct.kernel
def selected_rows(out, x, rows, ROWS: ConstInt, COLS: ConstInt):
    chosen = ct.load(rows, index=(ct.bid(0),), shape=(ROWS,))
    tile = ct.load_advanced_indexing(x, (chosen, ct.Slice(ct.bid(1) * COLS, COLS)), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(ct.bid(0), ct.bid(1)), tile=tile)


@ct.kernel
def pipelined(out, x, y, WIDTH: ConstInt, LATENCY: ConstInt):
    at = ct.bid(0) * WIDTH + ct.arange(WIDTH, dtype=ct.int32)
    first = ct.gather(x, at, check_bounds=True, padding_value=0.0, latency=LATENCY)
    second = ct.load(y, index=(ct.bid(0),), shape=(WIDTH,), latency=LATENCY + 1)
    ct.scatter(out, at, first + second)


@ct.kernel
def halve_then_look(out, x, limit: float, WIDTH: ConstInt):
    block = ct.bid(0)
    tile = ct.load(x, index=(block,), shape=(WIDTH,))
    steps = 0
    while True:
        tile = tile * 0.5
        if ct.max(tile, 0) < limit:
            break
        steps = steps + 1
    ct.store(out, index=(block,), tile=tile + ct.astype(steps, ct.float32))


@ct.kernel
def sum_of_some(out, x, n: int, skipped: int, WIDTH: ConstInt):
    total = ct.zeros((WIDTH,), dtype=ct.float32)
    for i in range(n):
        if i == skipped:
            continue
        total = total + ct.load(x, index=(i,), shape=(WIDTH,))
        if ct.sum(total, 0) > 1000.0:
            break
    ct.store(out, index=(ct.bid(0),), tile=total)


@ct.kernel
def returns_twice(out, x, limit: int, WIDTH: ConstInt):
    block = ct.bid(0)
    if block > limit:
        return
    tile = ct.load(x, index=(block,), shape=(WIDTH,))
    if ct.max(tile, 0) > 1.0:
        return
    ct.store(out, index=(block,), tile=tile * 2.0)


@ct.kernel
def two_spans(out, x, N: ConstInt, WIDTH: ConstInt):
    """The front end splits the loop at its condition, into loops that end at the lesser and start at the greater."""
    total = ct.zeros((WIDTH,), dtype=ct.float32)
    whole = N // WIDTH
    for i in range(ct.cdiv(N, WIDTH)):
        tile = ct.load(x, index=(i,), shape=(WIDTH,), padding_mode=ct.PaddingMode.ZERO)
        if i >= whole:
            tile = tile * 0.5
        total = total + tile
    ct.store(out, index=(ct.bid(0),), tile=total)


@ct.kernel
def decides(out, x, n: int, WIDTH: ConstInt):
    """Branches inside one another and a loop, each of which changes some of what the loop carries."""
    total = ct.zeros((WIDTH,), dtype=ct.float32)
    high = ct.zeros((WIDTH,), dtype=ct.float32)
    late = 0
    for i in range(n):
        tile = ct.load(x, index=(i,), shape=(WIDTH,))
        if i > late:
            if ct.max(tile, 0) > 1.0:
                tile = tile * 0.5
            high = ct.maximum(high, tile)
        total = total + tile
        late = late + i
    ct.store(out, index=(ct.bid(0),), tile=total + high * ct.astype(late, ct.float32))


@ct.kernel
def in_order(out, x, rows, LIMIT: ConstInt, WIDTH: ConstInt):
    """A reshape with other work before its broadcast, and a tile of a constant."""
    tile = ct.load(x, index=(ct.bid(0), 0), shape=(WIDTH, WIDTH))
    row = ct.reshape(ct.load(rows, index=(ct.bid(0),), shape=(WIDTH,)), (1, WIDTH))
    sums = ct.sum(ct.exp(tile), 1, keepdims=True)
    near = ct.arange(WIDTH, dtype=ct.int32)[:, None] < LIMIT
    ct.store(out, index=(ct.bid(0), 0), tile=ct.where(near, tile / sums, ct.broadcast_to(row, (WIDTH, WIDTH))))


@ct.kernel
def infinities(out, x, WIDTH: ConstInt):
    tile = ct.load(x, index=(ct.bid(0),), shape=(WIDTH,))
    low = ct.full((WIDTH,), float("-inf"), dtype=x.dtype)
    high = ct.full((WIDTH,), float("inf"), dtype=x.dtype)
    ct.store(out, index=(ct.bid(0),), tile=ct.minimum(ct.maximum(tile, low), high))


@ct.kernel
def select(out, WIDTH: ConstInt):
    ct.store(out, index=(ct.bid(0),), tile=ct.zeros((WIDTH,), dtype=ct.float32))
