# SPDX-License-Identifier: MIT
"""Launches on CPU tensors: the same specialization and bytecode as on a GPU, executed by `tile_ir.execute`.

Slow, and checked: an access outside of a tensor, a race between tile blocks or a false assumption is an ExecutionError
that names the operation, the block and the source line.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import struct
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from . import fresh
from .tensors import Scalar
from .tensors import scalar_packer
from .tensors import scalar_value
from .tile_ir.execute import Memory
from .tile_ir.execute import Options
from .tile_ir.execute import Program
from .tile_ir.execute import Statistics
from .tile_ir.execute import compile_function
from .tile_ir.reader import read_module

if TYPE_CHECKING:
    import torch

    from .library import Library
    from .target import Recorded
    from .target import Target
    from .tensors import TensorMeta

# Our kernels name the padding they need; one that forgets to shall show.
_OWN = Options(undetermined="poison")
_TRANSLATED = Options(undetermined="zero")


_translated: contextvars.ContextVar[Sequence[torch.Tensor] | None] = contextvars.ContextVar(
    "tilegym_rs_translated", default=None
)


@contextlib.contextmanager
def of_translations(reached: Sequence[torch.Tensor] = ()) -> Iterator[None]:
    """Execute launches of translated kernels: what a load gives where no padding is named is 0 as on a GPU, for them
    and for their originals.

    Args:
        reached: tensors that no descriptor describes, and that they may access all of: those of a list, those of high
            rank.
    """
    token = _translated.set(reached)
    try:
        yield
    finally:
        _translated.reset(token)


class ExecutingBound:
    """A launch with everything fixed but the addresses, executed on the CPU; immutable.

    Attributes:
        token: the specialization's number.
    """

    __slots__ = ("_grid", "_kernel", "_params", "_program", "_sources", "token")

    def __init__(
        self, program: Program, launch: Recorded, params: list[dict[str, Any]], sources: list[tuple[str, Any]]
    ) -> None:
        self._program = program
        self._kernel = launch.kernel
        self._params = params
        self._grid = launch.grid
        self._sources = sources
        self.token = launch.token

    def __call__(self, *pointers: int, scalars: Sequence[Scalar] | None = None) -> None:
        """Execute the launch; `pointers` are addresses of CPU memory in the order of the kernel's tensors.

        `scalars` are values in place of those it was bound with.
        """
        self.execute(*pointers, scalars=scalars)

    def execute(self, *pointers: int, scalars: Sequence[Scalar] | None = None) -> Statistics:
        """Execute the launch and return what it did."""
        addresses = iter(pointers)
        given = None if scalars is None else iter(self._values(scalars))
        memory, parameters = Memory(), []
        translated = _translated.get()
        reached = {tensor.data_ptr() for tensor in translated or ()}
        for tensor in translated or ():
            memory.add_tensor(tensor, "a tensor behind an address")
        for name, source in self._sources:
            if not isinstance(source, _TensorSource):
                parameters.append(source if given is None else next(given))
                continue
            address = next(addresses)
            parameters.append(address)
            if source.described:
                parameters += [*source.meta.shape, *source.meta.strides]
            if address not in reached:
                memory.add_range(address, source.bytes, name, source.meta.dtype.itemsize)
        with fresh.known_to(memory):
            return self._program.run(self._grid, parameters, memory, _OWN if translated is None else _TRANSLATED)

    def _values(self, scalars: Sequence[Scalar]) -> list[Scalar]:
        """Return scalars as the kernel sees them: rounded to their parameters' types."""
        packed = scalar_packer(self._kernel, self._params)(scalars)
        types = [param["type"] for param in self._params if param["kind"] == "scalar"]
        return [scalar_value(one, word) for one, (word,) in zip(types, struct.iter_unpack("<Q", packed), strict=True)]


class _TensorSource:
    """A tensor parameter: its metadata, and whether its extents and strides are launch parameters too."""

    __slots__ = ("bytes", "described", "meta")

    def __init__(self, meta: TensorMeta, described: bool) -> None:
        self.meta = meta
        self.described = described
        reach = sum((extent - 1) * stride for extent, stride in zip(meta.shape, meta.strides, strict=True))
        self.bytes = 0 if 0 in meta.shape else (reach + 1) * meta.dtype.itemsize


def executing_bound(
    library: Library, target: Target, launch: Recorded, metas: list[TensorMeta], scalars: list[int]
) -> Callable[..., None]:
    """Return what `bind` returns for CPU tensors.

    Args:
        library: the library the kernel is in.
        target: its architecture is the one whose bytecode is executed.
        launch: kernel, specialization and grid.
        metas: the tensors, in the kernel's order.
        scalars: the scalars, in the kernel's order, as 64-bit patterns.

    Raises:
        CompileError: the front end refused the specialization.
        ExecutionError: the kernel has something that a CPU cannot execute.
    """
    tensors, values = iter(metas), iter(scalars)
    sources: list[tuple[str, Any]] = []
    params = library.kernel(launch.kernel)["params"]
    for param in params:
        if param["kind"] == "scalar":
            sources.append((param["name"], scalar_value(param["type"], next(values))))
        else:
            sources.append((param["name"], _TensorSource(next(tensors), param["kind"] == "tensor")))
    return ExecutingBound(_program(library, launch.token, target.arch), launch, params, sources)


@functools.lru_cache(maxsize=256)
def _program(library: Library, token: int, arch: str) -> Program:
    from .artifacts import bytecode

    return compile_function(read_module(bytecode(library, token, arch)))
