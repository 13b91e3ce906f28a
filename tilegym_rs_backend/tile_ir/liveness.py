# SPDX-License-Identifier: MIT
"""What of a function matters: operations with effects, and what they need."""

from __future__ import annotations

from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value

LOOPS = ("for", "loop")
EFFECTS = frozenset(
    [
        *("store_view_tko", "store_ptr_tko", "atomic_cas_tko", "atomic_rmw_tko", "atomic_red_view_tko"),
        *("print_tko", "assert", "gdc_launch_dependents_tko", "gdc_wait_tko", "memory_fence_alias_tko"),
    ]
)
TERMINATORS = frozenset(("yield", "continue", "break", "return"))


def carried(op: Op) -> list[Value]:
    """The values with which a loop starts, in the order of its carried slots."""
    return op.group("init_values")


def slots(op: Op) -> list[Value]:
    """A loop body's parameters for its carried slots (``for`` has the index before them)."""
    return op.regions[0].params[op.opcode == "for" :]


def leaves(op: Op) -> bool:
    """Whether what comes after an operation may not happen: a return, continue or break is inside that means more."""
    if op.opcode in LOOPS:
        return any(inner.opcode == "return" for region in op.regions for _, inner in region.walk())
    return op.opcode == "if" and any(
        inner.opcode in ("return", "continue", "break") or leaves(inner)
        for region in op.regions
        for inner in region.ops
    )


class Liveness:
    """Which operations and which carried slots of loops decide what a function does.

    Attributes:
        ops: live operations.
        values: live values; a loop's slot i is live when its parameter or its result is.
        exits: loop -> its ``continue`` and ``break`` operations.
        parents: block -> the operation it belongs to, None for the function's body.
    """

    def __init__(self, function: Function) -> None:
        self.ops: set[Op] = set()
        self.values: set[Value] = set()
        self.exits: dict[Op, list[Op]] = {}
        self.parents: dict[Block, Op | None] = {function.body: None}
        self.blocks: dict[Op, Block] = {}
        self._pending: list[Value] = []
        self._survey(function.body, None)
        for op in self.blocks:
            # A return inside of something ends what comes after it.
            if op.opcode in EFFECTS or (op.opcode == "return" and self.blocks[op] is not function.body):
                self._mark(op)
                self._need(op.operands)
        while self._pending:
            self._follow(self._pending.pop())

    def slot(self, loop: Op, index: int) -> bool:
        """Whether a loop's carried slot is live."""
        return slots(loop)[index] in self.values or loop.results[index] in self.values

    def _survey(self, block: Block, loop: Op | None) -> None:
        for op in block.ops:
            self.blocks[op] = block
            if op.opcode in ("continue", "break") and loop is not None:
                self.exits.setdefault(loop, []).append(op)
            for region in op.regions:
                self.parents[region] = op
                self._survey(region, op if op.opcode in LOOPS else loop)

    def _need(self, values: list[Value]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self._pending.append(value)

    def _mark(self, op: Op) -> None:
        """Op is live, so are those around it, with what decides whether and how often they run it."""
        current: Op | None = op
        while current is not None and current not in self.ops:
            self.ops.add(current)
            if current.opcode == "if":
                self._need(current.group("condition"))
            elif current.opcode in LOOPS:
                for name in ("lower_bound", "upper_bound", "step"):
                    self._need(current.group(name))
                # Whatever leads to a way out of the loop decides how often it runs.
                for way_out in self.exits.get(current, ()):
                    self._mark(way_out)
            current = self.parents[self.blocks[current]]

    def _follow(self, value: Value) -> None:
        owner = value.owner
        if isinstance(owner, Op):
            self._mark(owner)
            if owner.opcode == "if":
                for region in owner.regions:
                    if region.ops and region.ops[-1].opcode == "yield":
                        self._need(region.ops[-1].operands[value.index : value.index + 1])
            elif owner.opcode in LOOPS:
                self._need(carried(owner)[value.index : value.index + 1])
                for way_out in self.exits.get(owner, ()):
                    self._need(way_out.operands[value.index : value.index + 1])
            elif owner.regions:
                self._need(owner.operands)
                for region in owner.regions:
                    for op in region.ops:
                        self._mark(op)
                        self._need(op.operands)
            else:
                self._need(owner.operands)
        elif isinstance(owner, Block):
            parent = self.parents.get(owner)
            if parent is None:
                return
            self._mark(parent)
            index = value.index - (parent.opcode == "for")
            if parent.opcode in LOOPS and index >= 0:
                self._need(carried(parent)[index : index + 1])
                for way_out in self.exits.get(parent, ()):
                    if way_out.opcode == "continue":
                        self._need(way_out.operands[index : index + 1])
