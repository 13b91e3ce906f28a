# SPDX-License-Identifier: MIT
"""reduce and scan, along any axis, with any body.

A reduction is a balanced tree (each half with the other), as on a GPU; a scan goes element by element. The body gets,
per operand, the element and what was accumulated before it. Its scalars are run as blocks of their own: each element
beside the axis is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute import floats
from tilegym_rs_backend.tile_ir.execute import integers
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import scalar_of
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Region
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.frame import View
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import flag
from tilegym_rs_backend.tile_ir.execute.registry import number
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.shapes import same_blocks

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op

Combine = Callable[[Frame, list[Array], list[Array]], list[Array]]
"""(batch, accumulated so far, what comes next) -> accumulated; all arrays of one shape."""


@builds("reduce")
def _reduce(op: Op, compiler: Compiler) -> Step:
    operands, results = compiler.use_group(op, "operands"), compiler.results(op)
    axis = number(op, "dim") + 1
    simple = _simple(op)
    combine = _plain(simple) if simple else _general(op, compiler)

    def step(frame: Frame) -> None:
        values = [frame.values[slot] for slot in operands]
        values = [same_blocks(value, max(map(len, values))) for value in values]
        if simple is None:  # the halves are then blocks of memory
            values = [np.ascontiguousarray(np.moveaxis(value, axis, 0)) for value in values]
        else:
            values = [np.moveaxis(value, axis, 0) for value in values]
        while (extent := len(values[0])) > 1:
            half = extent // 2
            values = combine(frame, [value[:half] for value in values], [value[half:] for value in values])
        for slot, value in zip(results, values, strict=True):
            frame.values[slot] = value[0]

    return step


@builds("scan")
def _scan(op: Op, compiler: Compiler) -> Step:
    operands, results = compiler.use_group(op, "operands"), compiler.results(op)
    axis, reverse = number(op, "dim") + 1, flag(op, "reverse")
    simple = _simple(op)
    combine = _plain(simple) if simple else _general(op, compiler)

    def step(frame: Frame) -> None:
        values = [frame.values[slot] for slot in operands]
        values = [same_blocks(value, max(map(len, values))) for value in values]
        values = [np.moveaxis(value, axis, 0)[:: -1 if reverse else 1] for value in values]
        outputs = [np.empty(value.shape, value.dtype) for value in values]
        state = [value[:1] for value in values]
        for i in range(len(values[0])):
            if i:
                state = combine(frame, state, [value[i : i + 1] for value in values])
            for output, value in zip(outputs, state, strict=True):
                output[i] = value[0]
        for slot, output in zip(results, outputs, strict=True):
            frame.values[slot] = np.moveaxis(output[:: -1 if reverse else 1], 0, axis)

    return step


def _plain(function: Callable[[Any, Any], Any]) -> Combine:
    return lambda frame, before, after: [function(before[0], after[0])]


def _simple(op: Op) -> Callable[[Any, Any], Any] | None:
    """Return the function of a body that is one arithmetic operation on its two parameters and a yield of it."""
    body = op.regions[0]
    if len(op.operands) != 1 or len(body.ops) != 2:
        return None
    inner, end = body.ops
    if end.opcode != "yield" or end.operands != inner.results or set(inner.operands) != set(body.params):
        return None
    element = scalar_of(inner.result.type)
    if inner.opcode in ("addf", "mulf"):
        mode, ftz = text(inner, "rounding_mode"), flag(inner, "flush_to_zero")
        return floats.arithmetic(inner.opcode, element, mode, ftz)
    if inner.opcode in ("maxf", "minf"):
        function = floats.extremum(inner.opcode, flag(inner, "propagate_nan"))
        return floats.flushed(function) if flag(inner, "flush_to_zero") else function
    if inner.opcode in ("addi", "muli", "andi", "ori", "xori"):
        return integers.plain(inner.opcode, element)
    if inner.opcode in ("maxi", "mini"):
        return integers.extremum(inner.opcode, text(inner, "signedness"), element)
    return None


def _general(op: Op, compiler: Compiler) -> Combine:
    region = compiler.region(op.regions[0])
    site = Site.of(op)

    def combine(frame: Frame, before: list[Array], after: list[Array]) -> list[Array]:
        shape = before[0].shape
        inner = _scalars(frame, region, before[0].size, shape, site)
        for i, (accumulated, element) in enumerate(zip(before, after, strict=True)):
            inner.values[region.params[2 * i]] = element.reshape(-1)
            inner.values[region.params[2 * i + 1]] = accumulated.reshape(-1)
        (outcome,) = region.run(inner)
        return [np.broadcast_to(value, (inner.n,)).reshape(shape) for value in outcome.values]

    return combine


def _scalars(frame: Frame, region: Region, size: int, shape: tuple[int, ...], site: Site) -> Frame:
    """Return a batch with one block per scalar of arrays (axis, block, rest...), with the outer values it uses."""
    n, rest = shape[1], int(np.prod(shape[2:], dtype=np.int64))
    owner = np.tile(np.repeat(np.arange(n), rest), shape[0])
    values: list[Any] = [None] * len(frame.values)
    inside = set(region.params)
    for slot in region.uses - inside:
        value = frame.values[slot]
        if isinstance(value, View):
            raise ExecutionError("unsupported", "a view inside of a reduction's body", op=site.opcode, loc=site.loc)
        if isinstance(value, np.ndarray) and len(value) > 1:
            value = value[owner]
        values[slot] = value
    blocks = frame.blocks[owner] if n == frame.n else np.broadcast_to(frame.blocks[:1], (size,))
    return Frame(values, blocks, frame.run)
