# SPDX-License-Identifier: MIT
"""Builds input tensors from words: a layout and a kind of data. Torch is imported when one is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cutile_rs.case import TORCH_DTYPES

if TYPE_CHECKING:
    import torch

LAYOUTS = ("contiguous", "transposed", "strided", "padded", "padded-odd", "offset", "expanded", "every-other-row")


def tensor(
    shape: tuple[int, ...], dtype: str, device: str, seed: int, *, layout: str = "contiguous", data: str = "randn"
) -> torch.Tensor:
    """A tensor of ``shape`` (rank >= 2 for any layout but ``contiguous`` and ``offset``).

    Args:
        shape: extents.
        dtype: ``"f32"``, ``"f16"``, ``"bf16"``.
        device: ``"cuda"``, ``"cpu"`` or ``"meta"``.
        seed: of torch's generator on that device.
        layout: one of ``LAYOUTS``.
        data: ``"empty"`` (not initialised) or one of the kinds of `fill`.
    """
    import torch

    kind = getattr(torch, TORCH_DTYPES[dtype])
    view = _view(torch.empty(_storage_shape(shape, layout), dtype=kind, device=device), shape, layout)
    assert tuple(view.shape) == shape, (view.shape, shape, layout)
    if data != "empty" and device != "meta":
        # An expanded view shares memory between rows: fill the row it is made of.
        fill(view[(slice(0, 1),) * (view.ndim - 1)] if layout == "expanded" else view, data, seed)
    return view


def scaled(view: torch.Tensor, factor: float) -> torch.Tensor:
    """Multiplies a tensor in place; a meta tensor as it is."""
    return view if view.is_meta else view.mul_(factor)


def integers(shape: tuple[int, ...], dtype: str, device: str, seed: int, low: int, high: int) -> torch.Tensor:
    """Integers of [low, high); filled whatever the case's data, since code may index with them."""
    import torch

    kind = getattr(torch, TORCH_DTYPES[dtype])
    if device == "meta":
        return torch.empty(shape, dtype=kind, device=device)
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randint(low, high, shape, dtype=kind, device=device, generator=generator)


def _storage_shape(shape: tuple[int, ...], layout: str) -> tuple[int, ...]:
    import math

    *lead, rows, cols = shape if len(shape) > 1 else (1, *shape)
    table = {
        "contiguous": tuple(shape),
        "transposed": (*lead, cols, rows),
        "strided": (*lead, rows, 2 * cols),
        "padded": (*lead, rows, cols + 64),
        "padded-odd": (*lead, rows, cols + 3),
        "offset": (math.prod(shape) + 1,),
        "expanded": (*(1 for _ in lead), 1, cols),
        "every-other-row": (*lead, 2 * rows, cols),
    }
    return table[layout]


def _view(base: torch.Tensor, shape: tuple[int, ...], layout: str) -> torch.Tensor:
    cols = shape[-1]
    if layout == "transposed":
        return base.transpose(-1, -2)
    if layout == "strided":
        return base[..., ::2]
    if layout in ("padded", "padded-odd"):
        return base[..., :cols]
    if layout == "offset":
        return base[1:].view(shape)
    if layout == "expanded":
        return base.expand(shape)
    if layout == "every-other-row":
        return base[..., ::2, :]
    return base


def fill(view: torch.Tensor, data: str, seed: int) -> None:
    """Overwrites a tensor with one kind of data, in place.

    Kinds: ``randn``; ``shifted`` (randn + 10000, or + 100 in the 16-bit types, so that subtracting the maximum
    matters); ``constant``; ``wide`` (randn * 30); ``positive`` (|randn| / 2); ``alternating`` (signs of neighbours
    differ); ``tiny`` (randn times the smallest normal number); ``signed-zeros``; ``overflow`` (most of the dtype's
    range); ``nan``, ``inf``, ``masked`` (special values planted by `_plant`).
    """
    import torch

    generator = torch.Generator(device=view.device).manual_seed(seed)
    noise = torch.randn(view.shape, generator=generator, device=view.device, dtype=torch.float32)
    limits = torch.finfo(view.dtype)
    if data == "shifted":
        noise += 10_000.0 if view.dtype == torch.float32 else 100.0
    elif data == "constant":
        noise.fill_(0.5)
    elif data == "wide":
        noise *= 30.0
    elif data == "positive":
        noise = noise.abs() * 0.5
    elif data == "alternating":
        signs = torch.arange(view.shape[-1], device=view.device) % 2 * 2 - 1
        noise = noise.abs() * 0.5 * signs
    elif data == "tiny":
        noise *= limits.tiny
    elif data == "signed-zeros":
        noise = torch.where(noise > 0, 0.0, -0.0)
    elif data == "overflow":
        noise = torch.where(noise > 0, limits.max, limits.min) * torch.rand(
            view.shape, generator=generator, device=view.device
        ).clamp_(0.25, 1.0)
    elif data in ("nan", "inf", "masked"):
        _plant(noise, data, limits.min)
    elif data != "randn":
        raise ValueError(f"unknown kind of data {data!r}")
    view.copy_(noise)


def _plant(noise: torch.Tensor, data: str, lowest: float) -> None:
    """Special values at the first, a middle and the last column, and whole rows of them; other rows stay finite."""
    rows = noise.view(-1, noise.shape[-1])
    cols = rows.shape[-1]
    places = (0, cols // 2, cols - 1)
    special = float("nan") if data == "nan" else float("inf")
    if data == "masked":
        # Rows all -inf; all -inf but one; all far below a finite mask value; -inf in the tail.
        for row, place in zip(range(1, rows.shape[0]), places, strict=False):
            rows[row] = -special
            rows[row, place] = 1.0
        rows[0] = -special
        rows[4 % rows.shape[0]] = lowest
        rows[5 % rows.shape[0], cols // 2 :] = -special
        return
    for row, place in enumerate(places):
        rows[row % rows.shape[0], place] = special
    rows[4 % rows.shape[0]] = special
    if data == "inf":
        rows[5 % rows.shape[0], places[1]] = -special
        rows[6 % rows.shape[0], places[0]] = -special
