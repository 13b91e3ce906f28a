# SPDX-License-Identifier: MIT
"""Kernels with a right form (WRONG=False) and a wrong one, each wrong in one of the ways people get kernels wrong."""
# ruff: noqa: SIM108 - one form per branch, so that the wrong one can be read

import cuda.tile as ct


@ct.kernel
def masked_copy(out, x, n: int, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    at = ct.bid(0) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)
    if WRONG:  # the mask is dropped
        ct.scatter(out, at, ct.gather(x, at, check_bounds=False), check_bounds=False)
    else:
        inside = ct.less(at, n)
        ct.scatter(out, at, ct.gather(x, at, mask=inside), mask=inside)


@ct.kernel
def row_maximum(out, x, WIDTH: ct.Constant[int], WRONG: ct.Constant[bool]):
    row = ct.bid(0)
    if WRONG:  # zeros beyond the row's end win over a row of negative numbers
        tile = ct.load(x, index=(row, 0), shape=(1, WIDTH), padding_mode=ct.PaddingMode.ZERO)
    else:
        tile = ct.load(x, index=(row, 0), shape=(1, WIDTH), padding_mode=ct.PaddingMode.NEG_INF)
    ct.store(out, index=(row, 0), tile=ct.max(tile, 1, keepdims=True))


@ct.kernel
def shifted_copy(out, x, n: int, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    at = ct.bid(0) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)
    if WRONG:  # one too many
        inside = ct.less_equal(at, n)
    else:
        inside = ct.less(at, n)
    value = ct.gather(x, at, mask=inside, check_bounds=False)
    ct.scatter(out, at, value, mask=inside, check_bounds=False)


@ct.kernel
def strided_copy(out, x, rows: int, columns: int, TILE: ct.Constant[int], WRONG: ct.Constant[bool]):
    r = ct.arange(TILE, dtype=ct.int32)[:, None]
    c = ct.arange(TILE, dtype=ct.int32)[None, :]
    if WRONG:  # row and column strides swapped
        at = r + c * rows
    else:
        at = r * columns + c
    ct.scatter(out, (r, c), ct.gather(x, at))


@ct.kernel
def product(out, a, b, STEPS: ct.Constant[int], TILE: ct.Constant[int], WRONG: ct.Constant[bool]):
    total = ct.zeros((TILE, TILE), dtype=ct.float32)
    for k in range(STEPS):
        left = ct.load(a, index=(0, k), shape=(TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, index=(k, 0), shape=(TILE, TILE), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(left, right, total)
        if WRONG:  # the sum is kept in bf16
            total = ct.astype(ct.astype(total, ct.bfloat16), ct.float32)
    ct.store(out, index=(0, 0), tile=ct.astype(total, out.dtype))


@ct.kernel
def row_sum(out, x, columns: int, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    row = ct.bid(0)
    if WRONG:  # the last, partial tile is forgotten
        tiles = columns // BLOCK
    else:
        tiles = ct.cdiv(columns, BLOCK)
    total = ct.zeros((1, BLOCK), dtype=ct.float32)
    for i in range(tiles):
        total = total + ct.load(x, index=(row, i), shape=(1, BLOCK), padding_mode=ct.PaddingMode.ZERO)
    ct.store(out, index=(row, 0), tile=ct.sum(total, 1, keepdims=True))


@ct.kernel
def running_sum(out, x, TILE: ct.Constant[int], WRONG: ct.Constant[bool]):
    tile = ct.load(x, index=(0, 0), shape=(TILE, TILE))
    if WRONG:  # along the columns
        tile = ct.cumsum(tile, 0)
    else:
        tile = ct.cumsum(tile, 1)
    ct.store(out, index=(0, 0), tile=tile)


@ct.kernel
def total(out, x, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    part = ct.sum(ct.load(x, index=(ct.bid(0),), shape=(BLOCK,)), 0, keepdims=True)
    zero = ct.zeros((1,), dtype=ct.int32)
    if WRONG:  # every block adds to the same element, without an atomic
        ct.scatter(out, zero, ct.gather(out, zero) + part)
    else:
        ct.atomic_add(out, zero, part)


@ct.kernel
def halved(out, x, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    bits = ct.load(x, index=(0,), shape=(BLOCK,))
    if WRONG:  # the top bit becomes a sign
        value = ct.astype(ct.bitcast(bits, ct.int8), ct.float32)
    else:
        value = ct.astype(bits, ct.float32)
    ct.store(out, index=(0,), tile=value * 0.5)


@ct.kernel
def aligned_copy(out, x, n: int, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    if WRONG:  # nobody checked
        n = ct.assume_divisible_by(n, 16)
    at = ct.bid(0) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)
    inside = ct.less(at, n)
    ct.scatter(out, at, ct.gather(x, at, mask=inside), mask=inside)


@ct.kernel
def clamped(out, x, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    value = ct.load(x, index=(0,), shape=(BLOCK,))
    if WRONG:  # maximumNumber: a NaN becomes 0
        value = ct.maximum(value, 0.0)
    else:
        value = ct.maximum(value, 0.0, propagate_nan=True)
    ct.store(out, index=(0,), tile=value)


@ct.kernel
def narrowed(out, x, BLOCK: ct.Constant[int], WRONG: ct.Constant[bool]):
    value = ct.load(x, index=(0,), shape=(BLOCK,))
    if WRONG:  # the low bits are cut off, not rounded
        value = ct.bitcast(ct.bitwise_and(ct.bitcast(value, ct.int32), -65536), ct.float32)
    ct.store(out, index=(0,), tile=ct.astype(value, ct.bfloat16))


@ct.kernel
def through_memory(out, scratch, again, x, BLOCK: ct.Constant[int]):
    # The front end takes `scratch` and `again` for different memory: wrong when the host passes one tensor twice.
    ct.store(scratch, index=(0,), tile=ct.load(x, index=(0,), shape=(BLOCK,)) * 2.0)
    ct.store(out, index=(0,), tile=ct.load(again, index=(0,), shape=(BLOCK,)))
