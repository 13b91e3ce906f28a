# SPDX-License-Identifier: MIT
"""Atomic operations: lanes that meet in one element follow each other, in the order of blocks and lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilegym_rs_backend.tile_ir.execute import checks
from tilegym_rs_backend.tile_ir.execute.access import Indexed
from tilegym_rs_backend.tile_ir.execute.boxes import lanes
from tilegym_rs_backend.tile_ir.execute.boxes import locate
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import decoder
from tilegym_rs_backend.tile_ir.execute.dtypes import encoder
from tilegym_rs_backend.tile_ir.execute.dtypes import item_size
from tilegym_rs_backend.tile_ir.execute.dtypes import memory_dtype
from tilegym_rs_backend.tile_ir.execute.dtypes import signed
from tilegym_rs_backend.tile_ir.execute.dtypes import unsigned
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.memory import Allocation
from tilegym_rs_backend.tile_ir.execute.pointers import pointee
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.rounding import rounder
from tilegym_rs_backend.tile_ir.execute.shapes import same_blocks
from tilegym_rs_backend.tile_ir.execute.views import tiling_of
from tilegym_rs_backend.tile_ir.types import ScalarType

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op

Update = Callable[[Array, Array], Array]

_MODES: dict[str, Update] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "umax": lambda a, b: signed(np.maximum(unsigned(a), unsigned(b))),
    "umin": lambda a, b: signed(np.minimum(unsigned(a), unsigned(b))),
    "xchg": lambda a, b: b,
}


def update(op: Op, element: ScalarType) -> Update:
    """Return the function (old, argument) -> new of an atomic operation's mode."""
    mode = text(op, "mode")
    if mode != "xchg" and element.is_float != (mode == "addf"):
        raise ExecutionError("malformed", f"atomic {mode} of {element}", op=op.opcode, loc=op.loc)
    if mode == "addf":
        rounding = rounder(element)
        return np.add if rounding is None else lambda a, b: rounding(a + b)
    function = _MODES.get(mode)
    if function is None:
        raise ExecutionError("unsupported", f"atomic mode {mode}", op=op.opcode, loc=op.loc)
    return function


def in_order(allocation: Allocation, element: ScalarType, index: Array, new: Callable[[Array, Array], Array]) -> Array:
    """Change the elements at a flat index, repeats one after the other; return what each lane found there.

    ``new(old, lanes)`` gives the new values of the lanes with these numbers.
    """
    memory, decode, encode = allocation.typed(memory_dtype(element)), decoder(element), encoder(element)
    found = np.empty(len(index), carrier(element))
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.flatnonzero(fresh)
    turn = np.empty(len(index), np.int64)
    turn[order] = np.arange(len(index)) - np.repeat(starts, np.diff(np.append(starts, len(index))))
    for each in range(int(turn.max()) + 1 if len(turn) else 0):
        chosen = np.flatnonzero(turn == each)
        old = decode(memory[index[chosen]])
        found[chosen] = old
        memory[index[chosen]] = encode(new(old, chosen))
    return found


def _atomic(op: Op, compiler: Compiler, operands: list[str], change: Callable[..., Array]) -> Step:
    """Return the step of an atomic on pointers; ``change(old, *arguments)`` gives the new values."""
    element, site = pointee(op, "pointers"), Site.of(op)
    pointers, arguments = compiler.use(op, "pointers"), [compiler.use(op, name) for name in operands]
    mask_slot, token_slot = compiler.use_optional(op, "mask"), compiler.use_optional(op, "token")
    target, token_target = compiler.results(op)
    size, in_flight = item_size(element), carrier(element)
    acquires = text(op, "memory_ordering_semantics") in ("acquire", "acq_rel")

    def step(frame: Frame) -> None:
        run, values = frame.run, frame.values
        token = 0 if token_slot is None else values[token_slot]
        values[token_target] = token | run.store_event()
        if acquires:
            run.synchronize(frame.blocks)
        mask = None if mask_slot is None else same_blocks(values[mask_slot], frame.n)
        index, mask, allocation = locate(frame, same_blocks(values[pointers], frame.n), mask, size, site)
        result = np.zeros(index.shape, in_flight)
        if allocation is not None:
            access = lanes(frame, index, mask)
            if run.options.checks:
                checks.before_atomic(run, allocation, access, size, site)
            flat = [np.broadcast_to(values[slot], index.shape) for slot in arguments]
            flat = [(each if mask is None else each[mask]).reshape(-1) for each in flat]
            old = in_order(
                allocation,
                element,
                access.index.reshape(-1),
                lambda before, chosen: change(before, *(each[chosen] for each in flat)),
            )
            if mask is None:
                result = old.reshape(index.shape)
            else:
                result[mask] = old
        values[target] = result

    return step


@builds("atomic_rmw_tko")
def _rmw(op: Op, compiler: Compiler) -> Step:
    return _atomic(op, compiler, ["arg"], update(op, pointee(op, "pointers")))


@builds("atomic_cas_tko")
def _cas(op: Op, compiler: Compiler) -> Step:
    def change(old: Array, expected: Array, new: Array) -> Array:
        # By bits, as the hardware does: NaN equals itself, zeros of both signs differ.
        size = old.dtype.itemsize
        same = np.ascontiguousarray(old).view(f"i{size}") == np.ascontiguousarray(expected).view(f"i{size}")
        return np.where(same, new, old)

    return _atomic(op, compiler, ["cmp", "val"], change)


@builds("atomic_red_view_tko")
def _reduce_view(op: Op, compiler: Compiler) -> Step:
    tiling, site = tiling_of(op), Site.of(op)
    view_slot, value_slot = compiler.use(op, "view"), compiler.use(op, "value")
    index_slots, token_slot = compiler.use_group(op, "index"), compiler.use_optional(op, "token")
    target, change, element, size = compiler.slot(op.result), update(op, tiling.element), tiling.element, tiling.size

    def step(frame: Frame) -> None:
        run, values = frame.run, frame.values
        token = 0 if token_slot is None else values[token_slot]
        values[target] = token | run.store_event()
        view, index = values[view_slot], [values[slot] for slot in index_slots]
        value = np.broadcast_to(values[value_slot], (frame.n, *tiling.tile))
        parts: list[tuple[Allocation, Indexed, Array]] = []
        if tiling.sparse is None:
            for piece in tiling.pieces(frame, view, index, site, True):
                flat = np.arange(len(piece.allocation.typed(memory_dtype(element))))
                numbers = np.array(piece.box.get(flat))
                access = Indexed(numbers, piece.box.blocks)
                parts.append((piece.allocation, access, value[piece.within]))
        else:
            numbers, inside, allocation = tiling.scattered(frame, view, index, site)
            if allocation is not None:
                numbers = same_blocks(numbers, frame.n)
                inside = None if inside is None else same_blocks(inside, frame.n)
                part = value if inside is None else value[inside]
                parts.append((allocation, lanes(frame, numbers, inside), part))
        for allocation, access, part in parts:
            if run.options.checks:
                checks.before_atomic(run, allocation, access, size, site)
            flat_part = part.reshape(-1)
            in_order(
                allocation,
                element,
                access.index.reshape(-1),
                lambda old, chosen, flat_part=flat_part: change(old, flat_part[chosen]),  # type: ignore[misc]
            )

    return step
