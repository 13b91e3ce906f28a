# SPDX-License-Identifier: MIT
"""Compare two kernels' Tile IR by what they compute, and name every difference with both source lines."""

from __future__ import annotations

import enum
import itertools
from collections import Counter
from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from tilegym_rs_backend.tile_ir.expressions import Expressions
from tilegym_rs_backend.tile_ir.features import CATEGORIES
from tilegym_rs_backend.tile_ir.features import CONTROL
from tilegym_rs_backend.tile_ir.features import HINT
from tilegym_rs_backend.tile_ir.features import MEMORY_FAMILY
from tilegym_rs_backend.tile_ir.features import category
from tilegym_rs_backend.tile_ir.features import describe
from tilegym_rs_backend.tile_ir.features import describe_value
from tilegym_rs_backend.tile_ir.features import features
from tilegym_rs_backend.tile_ir.features import hints_in_force
from tilegym_rs_backend.tile_ir.graph import Graph
from tilegym_rs_backend.tile_ir.graph import build
from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import SourceLoc
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.parameters import match_parameters
from tilegym_rs_backend.tile_ir.printer import attribute_texts
from tilegym_rs_backend.tile_ir.printer import place

NOTHING = "none of these"
_MOST_FIRST_DIFFERENCES = 8

# Category, phrase, source line.
Found = tuple[str, str, "SourceLoc | None"]


class Sameness(enum.Enum):
    """How much two kernels' Tile IR has in common."""

    IDENTICAL = "IDENTICAL"
    EQUIVALENT = "EQUIVALENT"
    DIFFERS = "DIFFERS"


@dataclass(frozen=True)
class IrDifference:
    """One difference: its category (see ``features.CATEGORIES``), both sides' phrase, and their source lines."""

    category: str
    ours: str
    theirs: str
    our_loc: SourceLoc | None = None
    their_loc: SourceLoc | None = None

    def __str__(self) -> str:
        sides = zip((self.ours, self.theirs), (self.our_loc, self.their_loc), strict=True)
        ours, theirs = (f"{text}{f' ({place(loc)})' if loc else ''}" for text, loc in sides)
        return f"{self.category}: ours {ours}, theirs {theirs}"

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        lines = {name: place(loc) if loc else "" for name, loc in (("our", self.our_loc), ("their", self.their_loc))}
        return {
            "category": self.category,
            "what": " against ".join(line or "nothing" for line in lines.values()),
            "ours": self.ours,
            "theirs": self.theirs,
            "our_line": lines["our"],
            "their_line": lines["their"],
        }


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison.

    Attributes:
        sameness: ``IDENTICAL``: the same operations in the same order; ``EQUIVALENT``: the same graph (see graph.py),
            hints and assumptions; ``DIFFERS`` otherwise.
        differences: what differs, by category in the order of ``CATEGORIES``.
        reordered: the sides' parameters come in another order, ``(theirs for our 0, theirs for our 1, ..)``; empty
            where they agree.
        remarks: what differs without being a difference of meaning.
    """

    sameness: Sameness
    differences: tuple[IrDifference, ...] = ()
    reordered: tuple[int, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories with a difference, in their fixed order."""
        found = {difference.category for difference in self.differences}
        return tuple(name for name in CATEGORIES if name in found)

    def __str__(self) -> str:
        note = ", parameters in another order" if self.reordered else ""
        kinds = f" in {', '.join(self.categories)}" if self.categories else ""
        return f"{self.sameness.value}{kinds}{note}"


def compare(ours: Function, theirs: Function, arch: str, *, ordered: bool = False) -> Verdict:
    """Compare two kernels as compiled for ``arch``.

    Args:
        ours, theirs: the kernels.
        arch: decides which hints are in force.
        ordered: both are launched with the same arguments in the same order, so that parameter i is parameter i.

    Raises:
        RecursionError: never for what ``read_module`` returns: it bounds how deep regions nest.
    """
    same_hints = hints_in_force(ours, arch) == hints_in_force(theirs, arch)
    if same_hints and _literal(ours, arch) == _literal(theirs, arch):
        return Verdict(Sameness.IDENTICAL)
    mine, peer, reordered = graphs(ours, theirs, ordered=ordered)
    found = _differences(mine, peer, ours, theirs, arch)
    if not found and mine.effects != peer.effects:
        found = [IrDifference("arithmetic", "another graph", "another graph", ours.loc, theirs.loc)]
    remarks = tuple(_remarks(mine, peer, "ours") + _remarks(peer, mine, "theirs"))
    if not found:
        return Verdict(Sameness.EQUIVALENT, (), reordered, remarks)
    found.sort(key=lambda difference: CATEGORIES.index(difference.category))
    return Verdict(Sameness.DIFFERS, tuple(found), reordered, remarks)


def graphs(ours: Function, theirs: Function, *, ordered: bool = False) -> tuple[Graph, Graph, tuple[int, ...]]:
    """Build both functions' graphs over the same expressions; the third is `Verdict.reordered`."""
    expressions = Expressions()
    mine = build(ours, expressions)
    same = len(ours.params) == len(theirs.params)
    orders = [list(range(len(ours.params)))] if same else []
    if not (same and ordered):
        orders.append(match_parameters(ours, theirs))
    peers = [build(theirs, expressions, order) for order in orders]
    # The order that makes more of the two kernels the same; the given one where both do equally well.
    best = max(range(len(orders)), key=lambda i: (len(mine.nodes.keys() & peers[i].nodes.keys()), -i))
    order = orders[best]
    return mine, peers[best], () if order == list(range(len(ours.params))) else tuple(order)


def _remarks(own: Graph, other: Graph, side: str) -> list[str]:
    """Assumptions of one side that are true anyway: no difference of meaning, but a compiler may use them."""
    only = [op for key, op in own.implied.items() if key not in other.implied]
    counts = Counter(_predicate(op) for op in only)
    return [f"{side} also states what is always true: {n} x assume {text}" for text, n in sorted(counts.items())]


def _literal(function: Function, arch: str) -> list[object]:
    """The operations as plain data, values numbered in order of definition."""
    numbers: dict[Value, int] = {value: i for i, value in enumerate(function.params)}
    found: list[object] = [value.type for value in function.params]
    for depth, op in function.body.walk():
        attributes = {k: v for k, v in op.attributes.items() if k != "optimization_hints"}
        hints = [text for kind, text in features(op, Graph(), arch) if kind in (HINT, MEMORY_FAMILY)]
        for region in op.regions:
            numbers.update((value, len(numbers) + i) for i, value in enumerate(region.params))
        numbers.update((value, len(numbers) + i) for i, value in enumerate(op.results))
        operands = [(name, [numbers[v] for v in op.operands[place_]]) for name, place_ in op.segments.items()]
        types = [value.type for value in (*op.results, *(v for region in op.regions for v in region.params))]
        found.append((depth, op.opcode, operands, attributes, hints, types))
    return found


def _differences(mine: Graph, peer: Graph, ours: Function, theirs: Function, arch: str) -> list[IrDifference]:
    found = _pairs(_phrases(mine, arch), _phrases(peer, arch))
    if mine.effects == peer.effects:
        # Hints are no part of the graph; one of them takes TMA away.
        found = [each for each in found if each.category in (HINT, MEMORY_FAMILY)]
    found += _entry_hints(ours, theirs, arch)
    known = [{number: i for i, number in enumerate(graph.parameters)} for graph in (mine, peer)]
    facts = [
        [
            ((HINT, f"assume {_predicate(op)} of {describe_value(key[0], graph, function, numbers)}"), op.loc)
            for key, op in graph.facts.items()
            if key not in other.facts
        ]
        for graph, other, function, numbers in ((mine, peer, ours, known[0]), (peer, mine, theirs, known[1]))
    ]
    found += _pairs(*facts)
    if mine.effects != peer.effects and all(each.category == HINT for each in found):
        found += _side_by_side(_first(mine, peer), _first(peer, mine))
    return found


def _phrases(graph: Graph, arch: str) -> list[tuple[tuple[str, str], SourceLoc | None]]:
    return [(pair, op.loc) for op in dict.fromkeys(graph.nodes.values()) for pair in features(op, graph, arch)]


def _pairs(
    ours: Sequence[tuple[tuple[str, str], SourceLoc | None]], theirs: Sequence[tuple[tuple[str, str], SourceLoc | None]]
) -> list[IrDifference]:
    """What one side has more of than the other, paired within its category in the order of the file."""
    sides: list[Mapping[tuple[str, str], list[SourceLoc | None]]] = []
    for items in (ours, theirs):
        places: dict[tuple[str, str], list[SourceLoc | None]] = defaultdict(list)
        for key, loc in items:
            places[key].append(loc)
        sides.append(places)
    surplus: list[dict[str, list[tuple[str, SourceLoc | None]]]] = []
    for own, other in (sides, sides[::-1]):
        by_category: dict[str, list[tuple[str, SourceLoc | None]]] = defaultdict(list)
        for key, locs in own.items():
            common = len(other[key]) if key in other else 0
            extra = len(locs) - common
            if extra > 0:
                more = " more" if common else ""
                by_category[key[0]].append((f"{extra}{more} x {key[1]}", locs[common]))
        surplus.append(by_category)
    return _side_by_side(*([(name, *item) for name in CATEGORIES for item in side[name]] for side in surplus))


def _side_by_side(ours: Sequence[Found], theirs: Sequence[Found]) -> list[IrDifference]:
    found = []
    for name in CATEGORIES:
        sides = ([each[1:] for each in side if each[0] == name] for side in (ours, theirs))
        for (a, at), (b, bt) in itertools.zip_longest(*sides, fillvalue=(NOTHING, None)):
            found.append(IrDifference(name, a, b, at, bt))
    return found


def _entry_hints(ours: Function, theirs: Function, arch: str) -> list[IrDifference]:
    sides = [hints_in_force(ours, arch), hints_in_force(theirs, arch)]
    found = []
    for name in sorted({*sides[0], *sides[1]}):
        a, b = (f"{name}={side[name]}" if name in side else f"{name} left to the compiler" for side in sides)
        if a != b:
            found.append(IrDifference(HINT, a, b, ours.loc, theirs.loc))
    return found


def _first(own: Graph, other: Graph) -> list[Found]:
    """Where the graphs part."""
    found = dict.fromkeys(op for _, op in own.parting(other))
    plain = [op for op in found if category(op) != CONTROL] or list(found)
    return [(category(op), describe(op), op.loc) for op in plain[:_MOST_FIRST_DIFFERENCES]]


def _predicate(op: Op) -> str:
    return attribute_texts(op)[0]
