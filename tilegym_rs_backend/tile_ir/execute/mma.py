# SPDX-License-Identifier: MIT
"""Matrix multiplication: floats accumulate in float32 (float64 for f64), integers exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilegym_rs_backend.tile_ir.execute.by_torch import tensor
from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import carrier
from tilegym_rs_backend.tile_ir.execute.dtypes import scalar_of
from tilegym_rs_backend.tile_ir.execute.dtypes import unsigned
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import text
from tilegym_rs_backend.tile_ir.execute.rounding import rounder

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op


@builds("mmaf")
def _mmaf(op: Op, compiler: Compiler) -> Step:
    a, b, c = (compiler.use(op, name) for name in ("lhs", "rhs", "acc"))
    target, element = compiler.slot(op.result), scalar_of(op.result.type)
    rounding = None if element.name == "f32" else rounder(element)
    dtype = carrier(element)

    def step(frame: Frame) -> None:
        values = frame.values
        total = product(values[a].astype(dtype, copy=False), values[b].astype(dtype, copy=False)) + values[c]
        values[target] = total if rounding is None else rounding(total)

    return step


def product(a: Array, b: Array) -> Array:
    """Return a @ b of floats, batched over the leading axes.

    By torch: numpy's BLAS wakes all its threads for each small matrix, which is many times slower wherever the machine
    has something else to do.
    """
    return np.asarray((tensor(a) @ tensor(b)).numpy())


@builds("mmaf_scaled")
def _mmaf_scaled(op: Op, compiler: Compiler) -> Step:
    names = ("lhs", "rhs", "acc", "lhs_scale", "rhs_scale")
    a, b, c, a_scale, b_scale = (compiler.use(op, name) for name in names)
    target = compiler.slot(op.result)

    def step(frame: Frame) -> None:
        values = frame.values
        # Scale (M, K / B) of an operand (M, K): each covers B elements along K. Products are exact in float64.
        x = values[a] * _spread(values[a_scale], values[a].shape[-1], -1).astype(np.float64)
        y = values[b] * _spread(values[b_scale], values[b].shape[-2], -2).astype(np.float64)
        values[target] = (product(x, y) + values[c]).astype(np.float32)

    return step


def _spread(scale: Array, extent: int, axis: int) -> Array:
    return np.repeat(scale, extent // scale.shape[axis], axis)


@builds("mmai")
def _mmai(op: Op, compiler: Compiler) -> Step:
    a, b, c = (compiler.use(op, name) for name in ("lhs", "rhs", "acc"))
    target, dtype = compiler.slot(op.result), carrier(scalar_of(op.result.type))
    plain_a, plain_b = (text(op, name) == "signed" for name in ("signedness_lhs", "signedness_rhs"))

    def step(frame: Frame) -> None:
        values = frame.values
        x = values[a] if plain_a else unsigned(values[a])
        y = values[b] if plain_b else unsigned(values[b])
        # 8-bit products sum exactly in float64 up to 2^37 terms, and BLAS is fast there.
        total = product(x.astype(np.float64), y.astype(np.float64)).astype(np.int64)
        values[target] = total.astype(dtype) + values[c]

    return step
