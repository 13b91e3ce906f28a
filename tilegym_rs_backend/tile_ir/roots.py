# SPDX-License-Identifier: MIT
"""Where two kernels' Tile IR parts: the operations that differ though what they are computed from does not.

One wrong operation makes everything behind it another expression; the verdict's phrases count all of it, and this
names the first. Each root is classified by what is different about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilegym_rs_backend.tile_ir.features import describe
from tilegym_rs_backend.tile_ir.graph import Graph
from tilegym_rs_backend.tile_ir.liveness import LOOPS
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SourceLoc
from tilegym_rs_backend.tile_ir.types import TokenType
from tilegym_rs_backend.tile_ir.verdict import graphs

MISSING, EXTRA = "op_missing", "op_extra"
OPERATOR, OPERAND, OPERAND_ORDER, CONSTANT = "operator", "operand", "operand_order", "constant"
TYPE, MODIFIER, AXIS, MEMORY_ORDER, TOKEN = "type", "modifier", "axis", "memory_order", "token"
LOOP_STRUCTURE, CONTROL, HINT, ASSUMPTION, PLACEMENT = "loop_structure", "control", "hint", "assumption", "placement"
CATEGORIES = (
    *(MISSING, EXTRA, OPERATOR, OPERAND, OPERAND_ORDER, CONSTANT, TYPE, MODIFIER, AXIS, MEMORY_ORDER, TOKEN),
    *(LOOP_STRUCTURE, CONTROL, HINT, ASSUMPTION, PLACEMENT),
)
"""Every category of a difference; the last one: the same graph, its operations in other places."""

_AXES = frozenset(("dim", "dim_map", "permutation", "axis", "identities", "reverse"))
_ORDERS = frozenset(("memory_ordering_semantics", "memory_scope"))


@dataclass(frozen=True)
class Root:
    """One place where the kernels part.

    Attributes:
        category: one of ``CATEGORIES``.
        ours, theirs: the operations, empty where one side has none.
        our_loc, their_loc: their source lines.
        our_opcode, their_opcode: their names.
    """

    category: str
    ours: str
    theirs: str
    our_loc: SourceLoc | None
    their_loc: SourceLoc | None
    our_opcode: str
    their_opcode: str


def roots(ours: Function, theirs: Function, *, ordered: bool = False) -> list[Root]:
    """Return where the two graphs part, in the order of our file, then theirs; empty for equal graphs.

    ``ordered`` as for `verdict.compare`.
    """
    mine, peer, _ = graphs(ours, theirs, ordered=ordered)
    left, right = _first(mine, peer), _first(peer, mine)
    found = []
    for number, op in left:
        partner = _partner(op, right) or _alike(mine, number, op, peer)
        if partner is None:
            found.append(Root(_alone(op, EXTRA), describe(op), "", op.loc, None, op.opcode, ""))
            continue
        right = [each for each in right if each[1] is not partner[1]]
        found.append(_root(_category(mine, number, op, peer, *partner), op, partner[1]))
    for number, op in right:
        partner = _alike(peer, number, op, mine)
        if partner is None:
            found.append(Root(_alone(op, MISSING), "", describe(op), None, op.loc, "", op.opcode))
        else:
            found.append(_root(_category(mine, *partner, peer, number, op), partner[1], op))
    return found


def _root(category: str, op: Op, other: Op) -> Root:
    return Root(category, describe(op), describe(other), op.loc, other.loc, op.opcode, other.opcode)


def _alike(own: Graph, number: int, op: Op, other: Graph) -> tuple[int, Op] | None:
    """The other side's operation of the same name that shares most of what this one is computed from, if any."""
    inputs = own.inputs.get(number, ())
    best, most = None, 0
    for candidate, each in other.nodes.items():
        if each.opcode == op.opcode and candidate not in own.nodes:
            shared = sum(a == b for a, b in zip(inputs, other.inputs.get(candidate, ()), strict=False))
            if shared > most:
                best, most = (candidate, each), shared
    return best


def _first(own: Graph, other: Graph) -> list[tuple[int, Op]]:
    """Where one graph leaves the other."""
    read = {number for inputs in own.inputs.values() for number in inputs}
    # A constant that nothing reads was made into another one; one that the other side knows was made there.
    everything: dict[Op, int] = {}
    for number, op in own.parting(other):
        if op.opcode != "constant" or (number in read and not other.knows(number)):
            everything.setdefault(op, number)
    # What surrounds a difference differs with it: control flow counts where nothing else does.
    found = [(number, op) for op, number in everything.items()]
    return [(number, op) for number, op in found if op.opcode not in (*LOOPS, "if")] or found


def _partner(op: Op, candidates: Sequence[tuple[int, Op]]) -> tuple[int, Op] | None:
    """The other side's operation that stands in this one's place: of the same name, else of the same results."""
    types = [value.type for value in op.results]
    for alike in (lambda other: other.opcode == op.opcode, lambda other: [v.type for v in other.results] == types):
        for candidate in candidates:
            if alike(candidate[1]):
                return candidate
    return None


def _alone(op: Op, otherwise: str) -> str:
    if op.opcode in LOOPS:
        return LOOP_STRUCTURE
    return CONTROL if op.opcode == "if" else otherwise


def _category(mine: Graph, number: int, op: Op, peer: Graph, other_number: int, other: Op) -> str:
    if op.opcode in LOOPS or other.opcode in LOOPS:
        return LOOP_STRUCTURE
    if op.opcode == "if" or other.opcode == "if":
        return CONTROL
    if op.opcode != other.opcode:
        return OPERATOR
    if [v.type for v in op.results] != [v.type for v in other.results]:
        return TYPE
    if op.opcode == "constant":
        return CONSTANT
    changed = {
        name
        for name in op.attributes.keys() | other.attributes.keys()
        if name != "optimization_hints" and op.attributes.get(name) != other.attributes.get(name)
    }
    if changed:
        return AXIS if changed & _AXES else MEMORY_ORDER if changed & _ORDERS else MODIFIER
    ours, theirs = mine.inputs.get(number, ()), peer.inputs.get(other_number, ())
    if ours == theirs:
        return CONTROL  # what is around it, or the body it combines with
    if sorted(ours) == sorted(theirs):
        return OPERAND_ORDER
    if len(ours) != len(theirs):
        return OPERAND
    differing = [position for position, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b]
    if differing and all(isinstance(op.operands[i].type, TokenType) for i in differing if i < len(op.operands)):
        return TOKEN
    return OPERAND
