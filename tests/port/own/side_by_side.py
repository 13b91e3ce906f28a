# SPDX-License-Identifier: MIT
"""The two kernels that docs/kernels.md shows in both languages."""

from __future__ import annotations

import cuda.tile as ct
import torch

ConstInt = ct.Constant[int]


@ct.kernel
def row_softmax(out, x, BLOCK: ConstInt):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, BLOCK), padding_mode=ct.PaddingMode.NEG_INF)
    values = ct.astype(values, ct.float32)
    weights = ct.exp(values - ct.max(values, 1, keepdims=True))
    total = ct.sum(weights, 1, keepdims=True)
    ct.store(out, index=(row, 0), tile=ct.astype(weights / total, out.dtype))


@ct.kernel
def batched_product(c, a, b, TM: ConstInt, TN: ConstInt, TK: ConstInt):
    batch, i, j = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.full((TM, TN), 0.0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=2, shape=(1, TM, TK))):
        left = ct.load(a, index=(batch, i, k), shape=(1, TM, TK), padding_mode=ct.PaddingMode.ZERO)
        right = ct.load(b, index=(batch, k, j), shape=(1, TK, TN), padding_mode=ct.PaddingMode.ZERO)
        total = ct.mma(ct.reshape(left, (TM, TK)), ct.reshape(right, (TK, TN)), total)
    ct.store(c, index=(batch, i, j), tile=ct.reshape(ct.astype(total, c.dtype), (1, TM, TN)))


def softmax_launch(launch, device):
    x = torch.randn(5, 300).to(torch.float16).to(device)
    out = torch.empty_like(x)
    launch((5,), row_softmax, (out, x, 512))
    return [out]


def product_launch(launch, device):
    a, b = (torch.randn(shape).to(torch.float16).to(device) for shape in ((2, 100, 72), (2, 72, 90)))
    c = torch.empty(2, 100, 90, dtype=torch.float16, device=device)
    launch((2, 2, 2), batched_product, (c, a, b, 64, 64, 32))
    return [c]


PROGRAMS = {"row_softmax": softmax_launch, "batched_product": product_launch}


@ct.kernel
def unshifted_softmax(out, x, BLOCK: ConstInt):
    row = ct.bid(0)
    values = ct.load(x, index=(row, 0), shape=(1, BLOCK), padding_mode=ct.PaddingMode.NEG_INF, latency=4)
    weights = ct.exp(ct.astype(values, ct.float32))
    total = ct.sum(weights, 1, keepdims=True)
    ct.store(out, index=(row, 0), tile=ct.astype(weights / total, out.dtype))


def unshifted_launch(launch, device):
    x = torch.randn(5, 300).to(torch.float16).to(device)
    out = torch.empty_like(x)
    launch((5,), unshifted_softmax, (out, x, 512))
    return [out]
