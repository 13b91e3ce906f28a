# SPDX-License-Identifier: MIT
"""Which assumptions say nothing new: a block's index is never negative, a loop's index stays below its bound."""

from __future__ import annotations

from collections.abc import Mapping

from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Bounded
from tilegym_rs_backend.tile_ir.model import DivBy
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.types import ScalarType
from tilegym_rs_backend.tile_ir.types import TileType

_NEVER_NEGATIVE = frozenset(("get_tile_block_id", "get_num_tile_blocks", "get_index_space_shape", "get_tensor_shape"))
_MAX_STEPS = 64


def implied(assume: Op, parents: Mapping[Block, Op | None]) -> bool:
    """Whether an ``assume`` follows from what its operand is; ``parents`` maps a block to the operation around it.

    Such an assumption cannot be false. It is no change of meaning, though a compiler may make use of it.
    """
    predicate = assume.attributes["predicate"]
    if predicate == DivBy(1):
        return True
    if not isinstance(predicate, Bounded):
        return False
    lower, upper = bounds(assume.operands[0], parents)
    below = predicate.lower is None or (lower is not None and lower >= predicate.lower)
    above = predicate.upper is None or (upper is not None and upper <= predicate.upper)
    return below and above


def bounds(value: Value, parents: Mapping[Block, Op | None]) -> tuple[int | None, int | None]:
    """The least and the greatest value that ``value`` can have, as far as its definition says; None is unknown."""
    lower: int | None = None
    upper: int | None = None
    index = False
    for _ in range(_MAX_STEPS):
        owner = value.owner
        if isinstance(owner, Op):
            if owner.opcode == "constant":
                number = _constant(owner)
                return (number, upper if index else number) if number is not None else (None, upper)
            if owner.opcode in _NEVER_NEGATIVE:
                return 0, upper
            if owner.opcode in ("assume", "reshape", "broadcast"):
                predicate = owner.attributes.get("predicate")
                if isinstance(predicate, Bounded) and predicate.lower is not None:
                    return predicate.lower, upper
                value = owner.operands[0]
                continue
            return lower, upper
        loop = parents.get(owner) if owner is not None else None
        if loop is None or loop.opcode != "for" or value.index != 0 or loop.attributes.get("unsigned_cmp"):
            return lower, upper
        # An index starts at the lower bound, and steps are positive.
        start, end = loop.operand("lower_bound"), loop.operand("upper_bound")
        if start is None or end is None:
            return lower, upper
        if not index and isinstance(end.owner, Op) and end.owner.opcode == "constant":
            last = _constant(end.owner)
            upper = last - 1 if last is not None else None
        index = True
        value = start
    return lower, upper


def _constant(op: Op) -> int | None:
    data, kind = op.attributes.get("value"), op.result.type
    if not isinstance(data, bytes) or not isinstance(kind, TileType):
        return None
    if not isinstance(kind.element, ScalarType) or not kind.element.is_integer or len(data) * 8 != kind.element.bits:
        return None
    return int.from_bytes(data, "little", signed=True)
