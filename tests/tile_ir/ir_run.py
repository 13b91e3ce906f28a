# SPDX-License-Identifier: MIT
"""Run small kernels of the builder over torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from ir_builder import TOKEN
from ir_builder import Kernel
from ir_builder import pointer
from ir_builder import tile

from tilegym_rs_backend.tile_ir.execute import Memory
from tilegym_rs_backend.tile_ir.execute import Options
from tilegym_rs_backend.tile_ir.execute import Statistics
from tilegym_rs_backend.tile_ir.execute import compile_function

TORCH = {
    "i1": torch.bool,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "tf32": torch.float32,
    "f64": torch.float64,
    "f8E4M3FN": torch.float8_e4m3fn,
    "f8E5M2": torch.float8_e5m2,
}


def run(
    kernel: Kernel,
    *arguments: torch.Tensor | int | float,
    grid: Sequence[int] = (1, 1, 1),
    unwritten: Sequence[torch.Tensor] = (),
    **options: Any,
) -> Statistics:
    """Run a kernel; a tensor argument stands for its address alone."""
    memory = Memory()
    flat: list[Any] = []
    for each in arguments:
        if isinstance(each, torch.Tensor):
            memory.add_tensor(each, f"argument {len(flat)}", written=not any(each is other for other in unwritten))
            flat.append(each.data_ptr())
        else:
            flat.append(each)
    return compile_function(kernel.module()).run(grid, flat, memory, Options(**options))


def lanes(b: Kernel, base: Any, element: str, n: int) -> Any:
    """Pointers to n consecutive elements."""
    one = b("reshape", base, to=pointer(element, 1))
    wide = b("broadcast", one, to=pointer(element, n))
    return b("offset", wide, b("iota", to=tile("i32", n)), to=pointer(element, n))


def load(b: Kernel, base: Any, element: str, n: int) -> Any:
    return b("load_ptr_tko", lanes(b, base, element, n), to=[tile(element, n), TOKEN])[0]


def store(b: Kernel, base: Any, value: Any, element: str, n: int) -> None:
    b("store_ptr_tko", lanes(b, base, element, n), value, to=TOKEN)


def elementwise(opcode: str, *inputs: tuple[str, torch.Tensor], to: str, **attributes: Any) -> torch.Tensor:
    """One operation on whole tensors of n elements (a power of two), each (element type, tensor)."""
    n = len(inputs[0][1])
    b = Kernel(*(pointer(element) for element, _ in inputs), pointer(to))
    values = [load(b, base, element, n) for base, (element, _) in zip(b.params, inputs, strict=False)]
    store(b, b.params[-1], b(opcode, *values, to=tile(to, n), **attributes), to, n)
    out = torch.zeros(n, dtype=TORCH[to])
    run(b, *(tensor for _, tensor in inputs), out)
    return out
