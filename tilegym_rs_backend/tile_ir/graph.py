# SPDX-License-Identifier: MIT
"""A function as a graph of expressions, so that two front ends' writing of one kernel becomes the same graph.

Left out: names, source lines, dead code, duplicates, where loop-invariant operations stand, operand order of
commutative operations, how a constant tile is made, which token a kernel starts from, carried values that never
change, order of carried values. Kept: what is computed from what, the order of memory accesses that tokens state
(a token carried through a loop included), control flow. Assumptions are kept apart, as facts about expressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field

from tilegym_rs_backend.tile_ir.assumptions import implied
from tilegym_rs_backend.tile_ir.constants import folded
from tilegym_rs_backend.tile_ir.expressions import Expressions
from tilegym_rs_backend.tile_ir.liveness import EFFECTS
from tilegym_rs_backend.tile_ir.liveness import Liveness
from tilegym_rs_backend.tile_ir.liveness import carried
from tilegym_rs_backend.tile_ir.liveness import leaves
from tilegym_rs_backend.tile_ir.liveness import slots
from tilegym_rs_backend.tile_ir.model import Attribute
from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.types import TokenType

COMMUTATIVE = frozenset(
    ["addf", "addi", "mulf", "muli", "mulhii", "maxf", "maxi", "minf", "mini", "andi", "ori", "xori", "fma"]
)
MIRRORED = {"greater_than": "less_than", "greater_than_or_equal": "less_than_or_equal"}
_SYMMETRIC = ("equal", "not_equal")
_REFINEMENTS = 2
_NEVER_THE_SAME = frozenset(("alloca", "atomic_rmw_tko", "atomic_cas_tko"))


@dataclass
class Graph:
    """The graph of one function.

    Attributes:
        parameters: the parameters' expressions.
        nodes: expression -> an operation that computes it.
        inputs: expression -> the expressions it is computed from, where it is no parameter.
        effects: what the function does, as a sorted tuple of expressions; equal tuples, equal functions.
        facts: what is assumed: (expression, predicate) -> the ``assume``; ``implied``: what could not be otherwise.
        carried: loop -> how many tiles and how many tokens it carries.
    """

    parameters: tuple[int, ...] = ()
    nodes: dict[int, Op] = field(default_factory=dict)
    inputs: dict[int, tuple[int, ...]] = field(default_factory=dict)
    effects: tuple[int, ...] = ()
    facts: dict[tuple[int, Attribute], Op] = field(default_factory=dict)
    implied: dict[tuple[int, Attribute], Op] = field(default_factory=dict)
    carried: dict[Op, tuple[int, int]] = field(default_factory=dict)

    def knows(self, number: int) -> bool:
        """Whether an expression occurs in the function."""
        return number in self.inputs

    def parting(self, other: Graph) -> list[tuple[int, Op]]:
        """Expressions, with their operations, that the other graph lacks though it has all they are computed from."""
        known = other.inputs.keys() | other.nodes.keys()
        return [
            (number, op)
            for number, op in self.nodes.items()
            if number not in other.nodes and known.issuperset(self.inputs.get(number, ()))
        ]


def build(function: Function, expressions: Expressions, parameters: Sequence[int] | None = None) -> Graph:
    """Build a function's graph; ``parameters[i]`` is the number under which its parameter i counts (i itself)."""
    return _Builder(function, expressions, parameters or range(len(function.params))).graph


class _Builder:
    def __init__(self, function: Function, expressions: Expressions, parameters: Sequence[int]) -> None:
        self.x = expressions
        self.live = Liveness(function)
        self.graph = Graph()
        self._inside = 0
        self._seen: Counter[int] = Counter()
        self._memory = {op: i for i, op in enumerate(op for _, op in function.body.walk() if op.opcode == "alloca")}
        self.values: dict[Value, int] = {
            value: self.x.number(("parameter", number, value.type))
            for number, value in zip(parameters, function.params, strict=True)
        }
        self.graph.parameters = tuple(self.values.values())
        effects, _ = self._block(function.body, 0)
        self.graph.effects = tuple(sorted(effects))
        self.graph.inputs.update((number, ()) for number in self.values.values() if number not in self.graph.inputs)

    def _block(self, block: Block, level: int) -> tuple[list[int], Op | None]:
        """Number a block's live operations; return its effects and its terminator."""
        effects: list[int] = []
        # What may leave the block decides whether the rest of it happens.
        passed: int | None = None
        outer, self._seen = self._seen, Counter()
        end: Op | None = None
        for op in block.ops:
            if op.opcode in ("yield", "continue", "break", "return"):
                end = op
                break
            if op in self.live.ops:
                number = self._op(op, level)
                if number is not None and (op.opcode in EFFECTS or op.regions):
                    effects.append(number if passed is None else self.x.number(("past", passed, number)))
                    if leaves(op):
                        passed = effects[-1]
        self._seen = outer
        return effects, end

    def _op(self, op: Op, level: int) -> int | None:
        """Number an operation and its results; None where it is no expression of its own."""
        if op.opcode == "for" or op.opcode == "loop":
            return self._loop(op, level)
        if op.opcode == "if":
            return self._if(op, level)
        simple = self._simplified(op)
        if simple is not None:
            self.values[op.results[0]] = simple
            return None
        operands = self._operands(op)
        body: Hashable = ()
        if op.regions:
            body = tuple(self._function_body(region, level) for region in op.regions)
        types = tuple(value.type for value in op.results)
        number = self.x.number((op.opcode, _attributes(op), operands, types, body))
        if op.opcode in _NEVER_THE_SAME:  # a duplicate finds another value, or is other memory
            self._seen[number] += 1
            again = self._memory.get(op, self._seen[number] - 1)
            number = self.x.number(("again", number, again)) if again else number
        unread = set(op.group(_unread(op)))
        self._record(number, op, tuple(self.values[value] for value in op.operands if value not in unread))
        self._results(op, number)
        return number if op.opcode in EFFECTS else None

    def _record(self, number: int, op: Op, inputs: tuple[int, ...]) -> None:
        if not self._inside:
            self.graph.nodes.setdefault(number, op)
            self.graph.inputs[number] = inputs

    def _results(self, op: Op, number: int) -> None:
        if len(op.results) == 1:
            self.values[op.results[0]] = number
            return
        for index, value in enumerate(op.results):
            self.values[value] = self.x.number(("result", number, index))

    def _simplified(self, op: Op) -> int | None:
        """The number of an operation that is another expression in disguise."""
        x = self.x
        if op.opcode == "constant":
            data = op.attributes["value"]
            number = x.constant(op.result.type, data if isinstance(data, bytes) else b"")
            self._record(number, op, ())
            return number
        if op.opcode == "make_token":
            return x.root
        if op.opcode == "join_tokens":
            return x.join([self.values[value] for value in op.operands])
        if op.opcode == "assume":
            inner = self.values[op.operands[0]]
            known = self.graph.implied if implied(op, self.live.parents) else self.graph.facts
            known.setdefault((inner, op.attributes["predicate"]), op)
            return inner
        if op.opcode in ("bitcast", "negf", "subi"):
            return self._folded(op)
        if op.opcode in ("reshape", "broadcast"):
            inner = self.values[op.operands[0]]
            if op.operands[0].type == op.result.type:
                return inner
            if inner in x.splats:
                number = x.constant(op.result.type, x.splats[inner])
                if inner in self.graph.nodes:
                    self._record(number, self.graph.nodes[inner], ())
                return number
            if op.opcode == "reshape":
                inner = x.reshaped.get(inner, inner)
                number = x.number(("reshape", inner, op.result.type))
                x.reshaped[number] = inner
                self._record(number, op, (inner,))
                return number
        return None

    def _folded(self, op: Op) -> int | None:
        """The number of what is no operation at all, or a constant made of constants."""
        inner = [self.values[value] for value in op.operands]
        if op.opcode == "bitcast" and op.operands[0].type == op.result.type:
            return inner[0]  # from a signed to an unsigned type: Tile IR's integers have no sign
        data = folded(op.opcode, [self.x.splats.get(number) for number in inner], op.result.type)
        if data is None:
            return None
        number = self.x.constant(op.result.type, data)
        self.graph.inputs.setdefault(number, ())
        return number

    def _operands(self, op: Op) -> Hashable:
        """An operation's operands by name; where their order is free, sorted."""
        numbers = [self.values[value] for value in op.operands]
        predicate = op.attributes.get("comparison_predicate")
        if op.opcode in COMMUTATIVE or predicate in _SYMMETRIC:
            return (*sorted(numbers[:2]), *numbers[2:])
        if predicate in MIRRORED:
            return tuple(reversed(numbers))
        if predicate is not None:
            return tuple(numbers)
        return tuple((name, tuple(numbers[place])) for name, place in op.segments.items() if name != _unread(op))

    def _function_body(self, block: Block, level: int) -> Hashable:
        """The body of a reduce or scan as a function of its parameters."""
        for value in block.params:
            self.values[value] = self.x.number(("body parameter", level, value.index, value.type))
        # What a reduce combines with is part of the reduce, no operation of the kernel's own.
        self._inside += 1
        _, end = self._block(block, level + 1)
        self._inside -= 1
        return tuple(self.values[value] for value in end.operands) if end else ()

    def _region(self, block: Block, level: int) -> tuple[tuple[int, ...], str]:
        """A control-flow region: its effects and how it ends."""
        effects, end = self._block(block, level)
        return tuple(sorted(effects)), end.opcode if end else "yield"

    def _if(self, op: Op, level: int) -> int | None:
        condition = self.values[op.operands[0]]
        sides = tuple(self._region(region, level) for region in op.regions)
        number = self.x.number(("if", condition, sides))
        self._record(number, op, (condition, *(each for effects, _ in sides for each in effects)))
        for value in op.results:
            if value not in self.live.values:
                continue
            arms: list[Hashable] = []
            for region in op.regions:
                end = region.ops[-1] if region.ops else None
                ends_here = end is not None and end.opcode == "yield"
                arms.append(self.values[end.operands[value.index]] if end and ends_here else "leaves")
            self.values[value] = self.x.number(("either", condition, *arms))
        return number if any(effects or end != "yield" for effects, end in sides) else None

    def _loop(self, op: Op, level: int) -> int | None:
        params, starts = slots(op), [self.values.get(value, -1) for value in carried(op)]
        bounds = tuple(self.values[v] for name in ("lower_bound", "upper_bound", "step") for v in op.group(name))
        if op.opcode == "for":
            self.values[op.regions[0].params[0]] = self.x.number(("index", level, op.regions[0].params[0].type))
        exits = self.live.exits.get(op, [])
        effects: tuple[int, ...] = ()
        end = ""
        ends: dict[int, Hashable] = {}
        unchanged = {
            i for i, value in enumerate(params) if all(e.operands[i] is value for e in exits if e.opcode == "continue")
        }
        active = [i for i in range(len(params)) if i not in unchanged and self.live.slot(op, i)]
        for i in unchanged:
            self.values[params[i]] = starts[i]
        colors: dict[int, Hashable] = {i: (params[i].type, starts[i]) for i in active}
        rounds = _REFINEMENTS if len(set(colors.values())) < len(active) else 0
        for remaining in range(rounds, -1, -1):
            for i in active:
                self.values[params[i]] = self.x.number(("carried", level, colors[i]))
            effects, end = self._region(op.regions[0], level + 1)
            ends = {i: tuple((e.opcode, self.values.get(e.operands[i], -1)) for e in exits) for i in active}
            if remaining:
                colors = {i: (colors[i], ends[i]) for i in active}
        kept = tuple(sorted(((self.x.number(colors[i]), ends[i]) for i in active), key=repr))
        number = self.x.number((op.opcode, bounds, _attributes(op), kept, effects, end))
        self._record(number, op, (*bounds, *effects))
        kinds = [isinstance(params[i].type, TokenType) for i in active]
        self.graph.carried[op] = (kinds.count(False), kinds.count(True))
        for i, value in enumerate(op.results):
            breaks = [e.operands[i] for e in exits if e.opcode == "break"]
            if i in unchanged and all(b is params[i] for b in breaks):
                self.values[value] = starts[i]
            elif i in unchanged or self.live.slot(op, i):
                color = colors.get(i, ("unchanged", starts[i], tuple(self.values.get(b) for b in breaks)))
                self.values[value] = self.x.number(("after", number, self.x.number(color)))
        return number if effects or end == "return" else None


def _unread(op: Op) -> str:
    """The operand that says nothing: the padding of a load without a mask."""
    return "padding_value" if op.opcode == "load_ptr_tko" and not op.group("mask") else ""


def _attributes(op: Op) -> Hashable:
    """An operation's attributes but for hints, a mirrored comparison as its mirror image."""
    found = []
    for name, value in sorted(op.attributes.items()):
        if name == "optimization_hints":
            continue
        if name == "comparison_predicate" and isinstance(value, str):
            value = MIRRORED.get(value, value)
        found.append((name, value))
    return tuple(found)
