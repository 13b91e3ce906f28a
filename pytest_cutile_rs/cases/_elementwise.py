# SPDX-License-Identifier: MIT
"""What the case files of elementwise ops share: their cases of size, data and offset, and their costs."""

from __future__ import annotations

import math
from typing import Any

from pytest_cutile_rs.case import DTYPES
from pytest_cutile_rs.case import ITEMSIZE
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.cases._build import BACKWARD
from pytest_cutile_rs.cases._build import case
from pytest_cutile_rs.cases._build import cases

ODD = ((1, 1), (1, 1000), (300, 1), (3, 17), (2, 1023), (9, 1025), (2, 3, 4, 65))
"""Extents of one, odd ones, those around a power of two, and four axes."""
EMPTY = ((0, 128), (4, 0, 64))
LAYOUTS = ("transposed", "strided", "padded", "padded-odd", "expanded", "every-other-row")
INTEGERS = "integers"
"""The data of a case whose input has a dtype that the op has no kernel for."""


def size_cases(op: str, shapes: tuple[tuple[int, ...], ...] = ODD, **more: Any) -> list[Case]:
    """Odd sizes in every dtype; the kernel is the same for all, so that one shape is compared in structure."""
    found = [
        case(op, dtype, shape, structural=shape == (3, 17), quick=(dtype, shape) == ("bf16", (3, 17)), **more)
        for shape in shapes
        for dtype in DTYPES
    ]
    return found + cases(op, ("f32",), EMPTY, structural=False, **more)


def data_cases(op: str, kinds: tuple[str, ...], shape: tuple[int, ...] = (16, 130), **more: Any) -> list[Case]:
    """Every kind of data in every dtype."""
    return [found for kind in kinds for found in cases(op, DTYPES, [shape], data=kind, structural=False, **more)]


def offset_cases(op: str, shape: tuple[int, ...] = (64, 500), **more: Any) -> list[Case]:
    """Contiguous, but not aligned to 16 bytes."""
    return cases(op, DTYPES, [shape], layout="offset", **more)


def layout_cases(op: str, shape: tuple[int, ...] = (64, 500), **more: Any) -> list[Case]:
    """Tensors that are not contiguous: refused by TileGym, so that there is no kernel to compare with."""
    return [case(op, "f16", shape, layout=layout, structural=False, **more) for layout in LAYOUTS]


def dtype_case(op: str, **more: Any) -> Case:
    """Integers, which the op refuses by name."""
    text = rf"{op}: \w+ has dtype torch.int32; this op takes float32"
    return case(op, "f32", (4, 8), data=INTEGERS, raises=text, structural=False, **more)


def of_its_kind(one: Case, x: Any) -> Any:
    """The input of a case, which has integers where the case is about that."""
    import torch

    return x.to(torch.int32) if one.data == INTEGERS else x


def bytes_per_element(one: Case, reads: int, writes: int) -> int:
    """Bytes that an elementwise op moves; a backward pass counts as a second run with one more read."""
    runs = reads + writes + ((reads + 1 + writes) if one.kwargs.get(BACKWARD) else 0)
    return runs * math.prod(one.shape) * ITEMSIZE[one.dtype]
