# SPDX-License-Identifier: MIT
"""cuTile Python kernels that TileGym does not have: what a user might write, one construct family each."""

import cuda.tile as ct
import torch


@ct.kernel
def stencil(out, x, left: float, centre: float, right: float, BLOCK: ct.Constant[int]):
    at = ct.bid(0) * BLOCK + ct.arange(BLOCK, dtype=ct.int32)
    before = ct.gather(x, at - 1, padding_value=0.0)
    here = ct.gather(x, at, padding_value=0.0)
    after = ct.gather(x, at + 1, padding_value=0.0)
    value = left * before + centre * here + right * after
    ct.scatter(out, at, ct.astype(value, out.dtype))


@ct.kernel
def histogram(counts, x, BINS: ct.Constant[int], BLOCK: ct.Constant[int]):
    values = ct.load(x, index=(ct.bid(0),), shape=(BLOCK,), padding_mode=ct.PaddingMode.ZERO)
    bins = ct.minimum(ct.astype(values * BINS, ct.int32), BINS - 1)
    ct.atomic_add(counts, bins, ct.ones((BLOCK,), dtype=ct.int32))


@ct.kernel
def outer(out, a, b, ROWS: ct.Constant[int], COLUMNS: ct.Constant[int]):
    batch, row, column = ct.bid(0), ct.bid(1), ct.bid(2)
    left = ct.load(a, index=(batch, row), shape=(1, ROWS), padding_mode=ct.PaddingMode.ZERO)
    right = ct.load(b, index=(batch, column), shape=(1, COLUMNS), padding_mode=ct.PaddingMode.ZERO)
    product = ct.reshape(left, (1, ROWS, 1)) * ct.reshape(right, (1, 1, COLUMNS))
    ct.store(out, index=(batch, row, column), tile=product)


@ct.kernel
def collatz(steps, starts, limit: int):
    at = ct.bid(0)
    n = ct.gather(starts, at)
    count = 0
    while n != 1 and count < limit:
        if n % 2 == 0:  # noqa: SIM108 - two branches are what is tried
            n = n // 2
        else:
            n = 3 * n + 1
        count = count + 1
    ct.scatter(steps, at, count)


@ct.kernel
def moments(mean, variance, x, columns: int, BLOCK: ct.Constant[int]):
    row = ct.bid(0)
    first = ct.zeros((1, BLOCK), dtype=ct.float32)
    second = ct.zeros((1, BLOCK), dtype=ct.float32)
    for i in range(ct.cdiv(columns, BLOCK)):
        tile = ct.astype(ct.load(x, index=(row, i), shape=(1, BLOCK), padding_mode=ct.PaddingMode.ZERO), ct.float32)
        first = first + tile
        second = second + tile * tile
    centre = ct.sum(first, 1, keepdims=True) / columns
    spread = ct.sum(second, 1, keepdims=True) / columns - centre * centre
    ct.store(mean, index=(row, 0), tile=centre)
    ct.store(variance, index=(row, 0), tile=spread)


def numbers(*shape, dtype=torch.float32, device="cpu"):
    if device == "meta":
        return torch.empty(*shape, dtype=dtype, device="meta")
    return torch.rand(*shape, generator=torch.Generator().manual_seed(3)).to(dtype)


def run_stencil(launch, device, dtype=torch.float32):
    x = numbers(300, dtype=dtype, device=device)
    out = torch.empty_like(x)
    launch((5,), stencil, (out, x, 0.25, 0.5, 0.25, 64))
    return (out,)


def run_histogram(launch, device):
    x = numbers(256, device=device)
    counts = torch.zeros(8, dtype=torch.int32, device=device)
    launch((4,), histogram, (counts, x, 8, 64))
    return (counts,)


def run_outer(launch, device, dtype=torch.float16):
    a, b = numbers(2, 20, dtype=dtype, device=device), numbers(2, 50, dtype=dtype, device=device)
    out = torch.empty(2, 20, 50, dtype=dtype, device=device)
    launch((2, 2, 2), outer, (out, a, b, 16, 32))
    return (out,)


def run_collatz(launch, device):
    starts = torch.arange(1, 9, dtype=torch.int32, device=device)
    steps = torch.empty_like(starts)
    launch((8,), collatz, (steps, starts, 1000))
    return (steps,)


def run_moments(launch, device, dtype=torch.bfloat16):
    x = numbers(4, 100, dtype=dtype, device=device)
    mean, variance = (torch.empty(4, 1, device=device) for _ in range(2))
    launch((4,), moments, (mean, variance, x, 100, 32))
    return (mean, variance)


PROGRAMS = {
    "stencil": run_stencil,
    "histogram": run_histogram,
    "outer": run_outer,
    "collatz": run_collatz,
    "moments": run_moments,
}


def launches():
    """Name -> the launch of each program, captured on meta tensors."""
    from tilegym_rs_backend.port.capture import capture

    def asked(grid, kernel, args):
        ct.launch(torch.cuda.current_stream(), grid, kernel, args)

    found = {f"own_{name}": capture(lambda p=program: p(asked, "meta")) for name, program in PROGRAMS.items()}
    assert all(len(each) == 1 for each in found.values())
    return {name: each[0] for name, each in found.items()}
