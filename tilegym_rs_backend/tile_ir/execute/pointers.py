# SPDX-License-Identifier: MIT
"""Tiles of pointers: offsets, loads, stores, and memory that a block or the module owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegym_rs_backend.tile_ir.execute import checks
from tilegym_rs_backend.tile_ir.execute.boxes import lanes
from tilegym_rs_backend.tile_ir.execute.boxes import locate
from tilegym_rs_backend.tile_ir.execute.boxes import poison
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import decoder
from tilegym_rs_backend.tile_ir.execute.dtypes import element_of
from tilegym_rs_backend.tile_ir.execute.dtypes import encoder
from tilegym_rs_backend.tile_ir.execute.dtypes import item_size
from tilegym_rs_backend.tile_ir.execute.dtypes import memory_dtype
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import binary
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import flag
from tilegym_rs_backend.tile_ir.execute.registry import number
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.rows import rows_of
from tilegym_rs_backend.tile_ir.execute.shapes import same_blocks
from tilegym_rs_backend.tile_ir.types import PointerType
from tilegym_rs_backend.tile_ir.types import ScalarType

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op


_LARGEST_ALLOCA = 1 << 26


def pointee(op: Op, name: str) -> ScalarType:
    """Return what the pointer operand `name` points to."""
    value = op.operand(name)
    element = element_of(value.type) if value else None
    if not isinstance(element, PointerType):
        raise ExecutionError("unsupported", f"the operand {name} is no tile of pointers", op=op.opcode, loc=op.loc)
    return element.pointee


@builds("offset")
def _offset(op: Op, compiler: Compiler) -> Step:
    size = item_size(pointee(op, "ptr"))
    return binary(op, compiler, lambda pointer, by: pointer + by.astype(np.int64) * size, "ptr", "offset")


@builds("load_ptr_tko")
def _load(op: Op, compiler: Compiler) -> Step:
    element, site = pointee(op, "source"), Site.of(op)
    source, token_slot = compiler.use(op, "source"), compiler.use_optional(op, "token")
    mask_slot, padding_slot = compiler.use_optional(op, "mask"), compiler.use_optional(op, "padding_value")
    target, token_target = compiler.results(op)
    dtype, decode, in_flight, size = memory_dtype(element), decoder(element), carrier(element), item_size(element)
    acquires = text(op, "memory_ordering_semantics") in ("acquire", "acq_rel")
    same = dtype == in_flight and dtype != np.bool_
    unknown = {"zero": np.zeros(1, in_flight), "poison": np.array([poison(element)], in_flight)}

    def step(frame: Frame) -> None:
        run, values = frame.run, frame.values
        token = 0 if token_slot is None else values[token_slot]
        run.statistics.loads += 1
        if acquires:
            run.synchronize(frame.blocks)
        values[token_target] = token
        address, mask = values[source], None if mask_slot is None else values[mask_slot]
        padding = unknown[run.options.undetermined] if padding_slot is None else values[padding_slot]
        if mask is not None:
            n = max(len(address), len(mask), len(padding))
            address, mask = same_blocks(address, n), same_blocks(mask, n)
        rows = rows_of(frame, address, mask, size, site)
        if rows is not None:
            result = np.empty((address.size // address.shape[-1], address.shape[-1]), in_flight)
            if mask is not None:
                result.reshape(address.shape)[...] = _beside(padding, address.ndim)
            for piece in rows:
                if run.options.checks:
                    checks.before_load(run, piece.allocation, piece.box, size, token, site)
                loaded = piece.box.get(piece.allocation.typed(dtype))
                result[piece.begin : piece.end, : piece.width] = loaded if same else decode(loaded)
            values[target] = result.reshape(address.shape)
            return
        index, mask, allocation = locate(frame, address, mask, size, site)
        result = np.empty(index.shape, in_flight)
        if mask is not None:
            result[...] = _beside(padding, index.ndim)
        if allocation is not None:
            access = lanes(frame, index, mask)
            if run.options.checks:
                checks.before_load(run, allocation, access, size, token, site)
            loaded = decode(access.get(allocation.typed(dtype)))
            if mask is None:
                result = loaded
            else:
                result[mask] = loaded
        values[target] = result

    return step


def _beside(padding: Array, rank: int) -> Array:
    """Return a padding tile, or one scalar per block, in a shape that broadcasts to a tile."""
    return padding if padding.ndim == rank else padding.reshape(-1, *(1,) * (rank - 1))


@builds("store_ptr_tko")
def _store(op: Op, compiler: Compiler) -> Step:
    element, site = pointee(op, "destination"), Site.of(op)
    destination, value_slot = compiler.use(op, "destination"), compiler.use(op, "value")
    mask_slot, token_slot = compiler.use_optional(op, "mask"), compiler.use_optional(op, "token")
    target = compiler.slot(op.result)
    dtype, encode, size = memory_dtype(element), encoder(element), item_size(element)

    def step(frame: Frame) -> None:
        run, values = frame.run, frame.values
        token = 0 if token_slot is None else values[token_slot]
        values[target] = token | run.store_event()
        mask = None if mask_slot is None else same_blocks(values[mask_slot], frame.n)
        address = same_blocks(values[destination], frame.n)
        rows = rows_of(frame, address, mask, size, site)
        if rows is not None:
            flat = np.broadcast_to(encode(values[value_slot]), address.shape).reshape(-1, address.shape[-1])
            for piece in rows:
                if run.options.checks:
                    checks.before_store(run, piece.allocation, piece.box, size, token, site)
                piece.box.set(piece.allocation.typed(dtype), flat[piece.begin : piece.end, : piece.width])
            return
        index, mask, allocation = locate(frame, address, mask, size, site)
        if allocation is None:
            return
        access = lanes(frame, index, mask)
        if run.options.checks:
            checks.before_store(run, allocation, access, size, token, site)
        value = np.broadcast_to(encode(values[value_slot]), index.shape)
        access.set(allocation.typed(dtype), value if mask is None else value[mask])

    return step


@builds("alloca")
def _alloca(op: Op, compiler: Compiler) -> Step:
    count, alignment, target = number(op, "num_elem"), number(op, "alignment"), compiler.slot(op.result)
    if alignment < 1 or alignment & (alignment - 1) or count < 0:
        text_ = f"alloca of {count} elements at a multiple of {alignment}"
        raise ExecutionError("malformed", text_, op=op.opcode, loc=op.loc)
    element = element_of(op.result.type)
    if not isinstance(element, PointerType):
        raise ExecutionError("unsupported", f"alloca of {op.result.type}", op=op.opcode, loc=op.loc)
    size, shared = item_size(element.pointee), flag(op, "global")
    if count * size + alignment > _LARGEST_ALLOCA:
        text_ = f"alloca of {count * size} bytes at a multiple of {alignment}: no GPU has that for a block"
        raise ExecutionError("unsupported", text_, op=op.opcode, loc=op.loc)

    def step(frame: Frame) -> None:
        room = -(-count * size // max(alignment, 16)) * max(alignment, 16)
        copies = 1 if shared else frame.n
        block = np.zeros(room * copies + alignment, np.uint8)
        skip = -int(block.ctypes.data) % max(alignment, 1)
        # Each block's memory is an allocation of its own, so that running out of it is seen.
        addresses = [
            frame.run.memory.add_array(
                block[skip + i * room : skip + i * room + count * size], "memory of alloca", size, False
            )
            for i in range(copies)
        ]
        frame.values[target] = np.array(addresses, np.int64)

    return step


@builds("get_global")
def _get_global(op: Op, compiler: Compiler) -> Step:
    name, target = text(op, "name"), compiler.slot(op.result)

    def step(frame: Frame) -> None:
        frame.values[target] = np.array([frame.run.globals[name]], np.int64)

    return step
