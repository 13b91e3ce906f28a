# SPDX-License-Identifier: MIT
"""A launch from bytecode and torch tensors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Union

from tilegym_rs_backend import fresh
from tilegym_rs_backend.tile_ir.execute.compile import compile_function
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.memory import Memory
from tilegym_rs_backend.tile_ir.execute.program import Options
from tilegym_rs_backend.tile_ir.execute.program import Program
from tilegym_rs_backend.tile_ir.execute.program import Statistics
from tilegym_rs_backend.tile_ir.reader import read_module

if TYPE_CHECKING:
    import torch

Argument = Union["torch.Tensor", "Table", int, float, bool]


@functools.lru_cache(maxsize=256)
def program_of(bytecode: bytes, entry: str | None = None) -> Program:
    """Return the compiled entry of a bytecode file; the last 256 are kept."""
    module = read_module(bytecode)
    try:
        return compile_function(module, entry)
    except KeyError as error:
        raise ExecutionError("arguments", str(error.args[0])) from None


def flatten(arguments: Sequence[Argument]) -> list[int | float | bool]:
    """Return launch parameters: per tensor its address, extents and strides (elements); scalars as they are."""
    flat: list[int | float | bool] = []
    for each in arguments:
        if isinstance(each, int | float | bool):
            flat.append(each)
        elif isinstance(each, Table):
            flat += [each.words.data_ptr(), len(each.items)]
        else:
            flat += [each.data_ptr(), *each.shape, *each.stride()]
    return flat


def check_tensor(tensor: object, position: int) -> None:
    """Refuse what has no elements in this process's memory, one after the other.

    Raises:
        ExecutionError: kind ``"arguments"``.
    """
    import torch

    if not isinstance(tensor, torch.Tensor):
        raise ExecutionError("arguments", f"argument {position} is a {type(tensor).__name__}, no tensor and no number")
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        what = f"a {tensor.layout} tensor on {tensor.device}".replace("torch.", "")
        raise ExecutionError("arguments", f"argument {position} is {what}: only strided CPU tensors are executed on")
    if tensor.is_conj() or tensor.is_neg():
        raise ExecutionError("arguments", f"argument {position} is a lazy conjugate or negative: resolve it first")
    reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True))
    last = (tensor.storage_offset() + reach + 1) * tensor.element_size()
    if tensor.numel() and last > tensor.untyped_storage().nbytes():
        raise ExecutionError("arguments", f"argument {position} reaches beyond its storage, which was freed or shrunk")


class Table:
    """A list of tensors as cuTile Python's kernels take it: a row of 64-bit words (address, extents, strides) each."""

    def __init__(self, items: Sequence[torch.Tensor]) -> None:
        import torch

        self.items = list(items)
        self.words = torch.tensor([[each.data_ptr(), *each.shape, *each.stride()] for each in items], dtype=torch.int64)


def run_launch(
    bytecode: bytes,
    grid: Sequence[int],
    arguments: Sequence[Argument | list[torch.Tensor]],
    *,
    unwritten: Sequence[torch.Tensor] = (),
    entry: str | None = None,
    options: Options | None = None,
) -> Statistics:
    """Run one launch over CPU tensors; what was allocated under `fresh.uninitialized_memory` counts as unwritten.

    Args:
        bytecode: Tile IR of either front end.
        grid: tile blocks per axis.
        arguments: the kernel's, in order: a tensor stands for its address, extents and strides; a list of tensors for
            a table of those and its length.
        unwritten: those of the tensors that nobody filled yet; reading them before they are stored is an error.
        entry: which kernel, where the file has several.
        options: how to run.

    Raises:
        ExecutionError: a fault in the kernel, or arguments that do not fit.
        TileIrError: malformed bytecode.
    """
    module = program_of(bytecode, entry)
    memory = Memory()
    plain: list[Argument] = [Table(each) if isinstance(each, list) else each for each in arguments]
    for position, each in enumerate(plain):
        if isinstance(each, int | float | bool):
            continue
        tensors = [each.words, *each.items] if isinstance(each, Table) else [each]
        for tensor in tensors:
            check_tensor(tensor, position)
        for tensor in tensors:
            filled = not any(tensor is other for other in unwritten)
            memory.add_tensor(tensor, f"argument {position}", written=filled)
    with fresh.known_to(memory):
        return module.run(grid, flatten(plain), memory, options)
