# SPDX-License-Identifier: MIT
"""A launch from bytecode and torch tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tilegym_rs_backend.tile_ir.execute.compile import compile_function
from tilegym_rs_backend.tile_ir.execute.memory import Memory
from tilegym_rs_backend.tile_ir.execute.program import Options
from tilegym_rs_backend.tile_ir.execute.program import Program
from tilegym_rs_backend.tile_ir.execute.program import Statistics
from tilegym_rs_backend.tile_ir.reader import read_module

if TYPE_CHECKING:
    import torch


@functools.lru_cache(maxsize=256)
def program_of(bytecode: bytes, entry: str | None = None) -> Program:
    """Return the compiled entry of a bytecode file; the last 256 are kept."""
    return compile_function(read_module(bytecode), entry)


def flatten(arguments: Sequence[torch.Tensor | int | float | bool]) -> list[int | float | bool]:
    """Return launch parameters: per tensor its address, extents and strides (elements); scalars as they are."""
    flat: list[int | float | bool] = []
    for each in arguments:
        if isinstance(each, int | float | bool):
            flat.append(each)
        else:
            flat += [each.data_ptr(), *each.shape, *each.stride()]
    return flat


def run_launch(
    bytecode: bytes,
    grid: Sequence[int],
    arguments: Sequence[torch.Tensor | int | float | bool],
    *,
    unwritten: Sequence[torch.Tensor] = (),
    entry: str | None = None,
    options: Options | None = None,
) -> Statistics:
    """Run one launch over CPU tensors.

    Args:
        bytecode: Tile IR of either front end.
        grid: tile blocks per axis.
        arguments: the kernel's, in order: a tensor stands for its address, extents and strides.
        unwritten: those of the tensors that nobody filled yet; reading them before they are stored is an error.
        entry: which kernel, where the file has several.
        options: how to run.

    Raises:
        ExecutionError: a fault in the kernel, or arguments that do not fit.
        TileIrError: malformed bytecode.
    """
    memory = Memory()
    for position, each in enumerate(arguments):
        if not isinstance(each, int | float | bool):
            fresh = any(each is other for other in unwritten)
            memory.add_tensor(each, f"argument {position}", written=not fresh)
    return program_of(bytecode, entry).run(grid, flatten(arguments), memory, options)
