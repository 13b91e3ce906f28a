# SPDX-License-Identifier: MIT
"""Tiles without arithmetic: constants, iota, reshapes, selections, joins and cuts."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import constant
from tilegym_rs_backend.tile_ir.execute.dtypes import element_of
from tilegym_rs_backend.tile_ir.execute.dtypes import shape_of
from tilegym_rs_backend.tile_ir.execute.dtypes import unsigned
from tilegym_rs_backend.tile_ir.execute.dtypes import wrap_i4
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import number
from tilegym_rs_backend.tile_ir.execute.registry import numbers
from tilegym_rs_backend.tile_ir.execute.registry import unary
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op


@builds("constant")
def _constant(op: Op, compiler: Compiler) -> Step:
    data = op.attributes["value"]
    if not isinstance(data, bytes):
        raise ExecutionError("unsupported", "a constant without data", op=op.opcode, loc=op.loc)
    return _fixed(constant(data, op.result.type), compiler.slot(op.result))


def _fixed(value: Array, target: int) -> Step:
    value.flags.writeable = False

    def step(frame: Frame) -> None:
        frame.values[target] = value

    return step


@builds("iota")
def _iota(op: Op, compiler: Compiler) -> Step:
    element, shape = element_of(op.result.type), shape_of(op.result.type)
    (extent,) = shape
    return _fixed(_counted(extent, element), compiler.slot(op.result))


@functools.lru_cache(maxsize=32)
def _counted(extent: int, element: ScalarType | PointerType) -> Array:
    values = np.arange(extent).astype(carrier(element))[None]
    return wrap_i4(values) if str(element) == "i4" else values


@builds("reshape")
def _reshape(op: Op, compiler: Compiler) -> Step:
    shape = shape_of(op.result.type)
    return unary(op, compiler, lambda x: x.reshape(len(x), *shape))


@builds("broadcast")
def _broadcast(op: Op, compiler: Compiler) -> Step:
    shape = shape_of(op.result.type)
    return unary(op, compiler, lambda x: np.broadcast_to(x, (len(x), *shape)))


@builds("permute")
def _permute(op: Op, compiler: Compiler) -> Step:
    axes = (0, *(axis + 1 for axis in numbers(op, "permutation")))
    return unary(op, compiler, lambda x: x.transpose(axes))


@builds("select")
def _select(op: Op, compiler: Compiler) -> Step:
    condition, yes, no = (compiler.use(op, name) for name in ("cond", "val_if_true", "val_if_false"))
    target = compiler.slot(op.result)

    def step(frame: Frame) -> None:
        values = frame.values
        values[target] = np.where(values[condition], values[yes], values[no])

    return step


@builds("cat")
def _cat(op: Op, compiler: Compiler) -> Step:
    left, right, target = compiler.use(op, "lhs"), compiler.use(op, "rhs"), compiler.slot(op.result)
    axis = number(op, "dim") + 1

    def step(frame: Frame) -> None:
        a, b = frame.values[left], frame.values[right]
        if len(a) != len(b):
            a, b = same_blocks(a, frame.n), same_blocks(b, frame.n)
        frame.values[target] = np.concatenate((a, b), axis)

    return step


def same_blocks(value: Array, n: int) -> Array:
    """Return a value with a block axis of length n."""
    return value if len(value) == n else np.broadcast_to(value, (n, *value.shape[1:]))


@builds("extract")
def _extract(op: Op, compiler: Compiler) -> Step:
    source, indices, target = compiler.use(op, "source"), compiler.use_group(op, "indices"), compiler.slot(op.result)
    shape, site = shape_of(op.result.type), Site.of(op)
    whole = _shape(op, "source")

    def step(frame: Frame) -> None:
        value = frame.values[source]
        index = [frame.values[slot] for slot in indices]
        if all(len(each) == 1 for each in index):
            frame.values[target] = value[_window(frame, site, index, 0, shape, whole)]
            return
        value = same_blocks(value, frame.n)
        parts = [value[block][_window(frame, site, index, block, shape, whole)[1:]] for block in range(frame.n)]
        frame.values[target] = np.stack(parts)

    return step


@builds("insert")
def _insert(op: Op, compiler: Compiler) -> Step:
    source, into = compiler.use(op, "source"), compiler.use(op, "destination")
    indices, target = compiler.use_group(op, "indices"), compiler.slot(op.result)
    shape, whole, site = _shape(op, "source"), shape_of(op.result.type), Site.of(op)

    def step(frame: Frame) -> None:
        part, index = frame.values[source], [frame.values[slot] for slot in indices]
        result = np.array(same_blocks(frame.values[into], frame.n))
        if all(len(each) == 1 for each in index):
            result[_window(frame, site, index, 0, shape, whole)] = part
        else:
            part = same_blocks(part, frame.n)
            for block in range(frame.n):
                result[block][_window(frame, site, index, block, shape, whole)[1:]] = part[block]
        frame.values[target] = result

    return step


def _window(
    frame: Frame, site: Site, index: list[Array], block: int, shape: tuple[int, ...], whole: tuple[int, ...]
) -> tuple[Any, ...]:
    """Return the slices of the small tile in the big one; indices count small tiles."""
    place: list[Any] = [slice(None)]
    for each, extent, size in zip(index, shape, whole, strict=True):
        at = int(unsigned(each)[block if len(each) > 1 else 0])
        if not 0 <= at * extent <= size - extent:
            raise site.error(
                "out-of-bounds",
                f"index {at} of a tile {shape} in one of {whole}: indices count whole small tiles",
                frame.run.coordinates(int(frame.blocks[block])),
            )
        place.append(slice(at * extent, (at + 1) * extent))
    return tuple(place)


def _shape(op: Op, name: str) -> tuple[int, ...]:
    value = op.operand(name)
    return () if value is None else shape_of(value.type)
