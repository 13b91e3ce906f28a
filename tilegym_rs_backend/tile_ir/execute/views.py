# SPDX-License-Identifier: MIT
"""Tensor views, and loads and stores of their tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegym_rs_backend.tile_ir.execute import checks
from tilegym_rs_backend.tile_ir.execute.boxes import Tiling
from tilegym_rs_backend.tile_ir.execute.boxes import lanes
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import decoder
from tilegym_rs_backend.tile_ir.execute.dtypes import element_of
from tilegym_rs_backend.tile_ir.execute.dtypes import encoder
from tilegym_rs_backend.tile_ir.execute.dtypes import memory_dtype
from tilegym_rs_backend.tile_ir.execute.dtypes import natural
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.frame import View
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import numbers
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.registry import unary
from tilegym_rs_backend.tile_ir.execute.shapes import same_blocks
from tilegym_rs_backend.tile_ir.types import TensorViewType

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op


@builds("make_tensor_view")
def _make_tensor_view(op: Op, compiler: Compiler) -> Step:
    type, site = op.result.type, Site.of(op)
    if not isinstance(type, TensorViewType):
        raise site.error("unsupported", f"{type} is no tensor view")
    base, target = compiler.use(op, "base"), compiler.slot(op.result)
    extents = iter(compiler.use_group(op, "dynamic_shape"))
    strides = iter(compiler.use_group(op, "dynamic_strides"))
    shape = [next(extents) if extent is None else np.array([extent], np.int64) for extent in type.shape]
    stride = [next(strides) if each is None else np.array([each], np.int64) for each in type.strides]

    def step(frame: Frame) -> None:
        frame.values[target] = View(frame.values[base], _columns(frame, shape), _columns(frame, stride))

    return step


def _columns(frame: Frame, sources: list[int | Array]) -> Array:
    columns = [natural(frame.values[each] if isinstance(each, int) else each).reshape(-1) for each in sources]
    return np.stack(np.broadcast_arrays(*columns), axis=1) if columns else np.zeros((1, 0), np.int64)


@builds("make_partition_view", "make_strided_view", "make_gather_scatter_view")
def _make_tile_view(op: Op, compiler: Compiler) -> Step:
    Tiling.of(op.result.type)
    return unary(op, compiler, lambda view: view, "tensor_view")


@builds("get_tensor_shape")
def _get_tensor_shape(op: Op, compiler: Compiler) -> Step:
    source, results = compiler.use(op, "src"), compiler.results(op)
    dtypes = [carrier(element_of(value.type)) for value in op.results]

    def step(frame: Frame) -> None:
        view = frame.values[source]
        for axis, (slot, dtype) in enumerate(zip(results, dtypes, strict=True)):
            frame.values[slot] = view.shape[:, axis].astype(dtype)

    return step


@builds("get_index_space_shape")
def _get_index_space_shape(op: Op, compiler: Compiler) -> Step:
    value = op.operand("src")
    tiling = Tiling.of(value.type if value else None)
    source, results = compiler.use(op, "src"), compiler.results(op)
    dtypes = [carrier(element_of(value.type)) for value in op.results]

    def step(frame: Frame) -> None:
        view = frame.values[source]
        for slot, dtype, axis, by in zip(results, dtypes, tiling.dim_map, tiling.steps, strict=True):
            frame.values[slot] = (-(-view.shape[:, axis] // by)).astype(dtype)

    return step


def tiling_of(op: Op) -> Tiling:
    """Return the geometry of the operand `view`."""
    value = op.operand("view")
    if value is None:
        raise ExecutionError("unsupported", "the operand view is missing", op=op.opcode, loc=op.loc)
    return Tiling.of(value.type, numbers(op, "inbounds") if "inbounds" in op.attributes else ())


@builds("load_view_tko")
def _load(op: Op, compiler: Compiler) -> Step:
    tiling, site = tiling_of(op), Site.of(op)
    view_slot, index_slots = compiler.use(op, "view"), compiler.use_group(op, "index")
    token_slot = compiler.use_optional(op, "token")
    target, token_target = compiler.results(op)
    dtype, decode, in_flight = memory_dtype(tiling.element), decoder(tiling.element), carrier(tiling.element)
    size, acquires = tiling.size, text(op, "memory_ordering_semantics") in ("acquire", "acq_rel")

    def step(frame: Frame) -> None:
        run, values = frame.run, frame.values
        view, index = values[view_slot], [values[slot] for slot in index_slots]
        token = 0 if token_slot is None else values[token_slot]
        run.statistics.loads += 1
        fill = tiling.fill(run.options.undetermined)
        if acquires:
            run.synchronize(frame.blocks)
        if tiling.sparse is not None:
            values[target] = _gather(frame, tiling, view, index, token, site, decode, fill)
        else:
            result = None
            rows = max(map(len, (view.pointer, view.shape, view.strides, *index)))
            for piece in tiling.pieces(frame, view, index, site, False):
                if run.options.checks:
                    checks.before_load(run, piece.allocation, piece.box, size, token, site)
                loaded = decode(piece.box.get(piece.allocation.typed(dtype)))
                if loaded.shape == (rows, *tiling.tile):
                    result = loaded
                    break
                if result is None:
                    result = np.full((rows, *tiling.tile), fill, in_flight)
                result[piece.within] = loaded
            values[target] = np.full((rows, *tiling.tile), fill, in_flight) if result is None else result
        values[token_target] = token

    return step


def _gather(
    frame: Frame, tiling: Tiling, view: View, index: list[Array], token: int, site: Site, decode: object, fill: float
) -> Array:
    numbers_of, inside, allocation = tiling.scattered(frame, view, index, site)
    result = np.full(numbers_of.shape, fill, carrier(tiling.element))
    if allocation is not None and callable(decode):
        access = lanes(frame, numbers_of, inside)
        if frame.run.options.checks:
            checks.before_load(frame.run, allocation, access, tiling.size, token, site)
        loaded = decode(access.get(allocation.typed(memory_dtype(tiling.element))))
        if inside is None:
            return np.asarray(loaded)
        result[inside] = loaded
    return result


@builds("store_view_tko")
def _store(op: Op, compiler: Compiler) -> Step:
    tiling, site = tiling_of(op), Site.of(op)
    tile_slot, view_slot = compiler.use(op, "tile"), compiler.use(op, "view")
    index_slots, token_slot = compiler.use_group(op, "index"), compiler.use_optional(op, "token")
    target = compiler.slot(op.result)
    dtype, encode, size = memory_dtype(tiling.element), encoder(tiling.element), tiling.size

    def step(frame: Frame) -> None:
        run, values = frame.run, frame.values
        view, index = values[view_slot], [values[slot] for slot in index_slots]
        token = 0 if token_slot is None else values[token_slot]
        bit = run.store_event()
        value = encode(values[tile_slot])
        if tiling.sparse is not None:
            _scatter(frame, tiling, view, index, token, site, value)
        else:
            value = same_blocks(value, frame.n)
            for piece in tiling.pieces(frame, view, index, site, True):
                if run.options.checks:
                    checks.before_store(run, piece.allocation, piece.box, size, token, site)
                piece.box.set(piece.allocation.typed(dtype), value[piece.within])
        values[target] = token | bit

    return step


def _scatter(
    frame: Frame, tiling: Tiling, view: View, index: list[Array], token: int, site: Site, value: Array
) -> None:
    numbers_of, inside, allocation = tiling.scattered(frame, view, index, site)
    if allocation is None:
        return
    numbers_of = same_blocks(numbers_of, frame.n)
    inside = None if inside is None else same_blocks(inside, frame.n)
    access = lanes(frame, numbers_of, inside)
    if frame.run.options.checks:
        checks.before_store(frame.run, allocation, access, tiling.size, token, site)
    value = np.broadcast_to(value, (frame.n, *tiling.tile))
    access.set(allocation.typed(memory_dtype(tiling.element)), value if inside is None else value[inside])
