# SPDX-License-Identifier: MIT
"""Control flow over a batch: blocks that agree go on together, those that part are run in groups and merged."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from typing import TYPE_CHECKING
from typing import Any

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.dtypes import unsigned
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Frame
from tilegym_rs_backend.tile_ir.execute.frame import Outcome
from tilegym_rs_backend.tile_ir.execute.frame import Region
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.frame import Transfer
from tilegym_rs_backend.tile_ir.execute.frame import merge
from tilegym_rs_backend.tile_ir.execute.registry import builds
from tilegym_rs_backend.tile_ir.execute.registry import flag

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op

# No run gets there: what a count of turns is cut off at.
_MOST_TURNS = 1 << 62

Part = tuple[Array | None, list[Any]]
"""Blocks (None: all), and the values they bring."""


@builds("yield", "continue", "break", "return")
def _terminator(op: Op, compiler: Compiler) -> Step:
    operands, kind = compiler.use_group(op, "operands"), op.opcode

    def step(frame: Frame) -> Transfer:
        values = frame.values
        return Transfer([Outcome(kind, None, [values[slot] for slot in operands])], None, [])

    return step


def settle(frame: Frame, results: list[int], done: list[Part], escaped: list[Outcome]) -> Transfer | None:
    """Set an operation's results from the parts that reached its end; let the blocks that left it go.

    ``escaped`` are outcomes that end enclosing regions too (a break out of an `if`).
    """
    if not escaped:
        for slot, value in zip(results, gather(done, frame.n), strict=True):
            frame.values[slot] = value
        return None
    if not done:
        return Transfer(escaped, None, [])
    stay = np.sort(np.concatenate([_indices(chosen, frame.n) for chosen, _ in done]))
    renumbered: list[Part] = [(np.searchsorted(stay, _indices(chosen, frame.n)), values) for chosen, values in done]
    return Transfer(escaped, stay, list(zip(results, gather(renumbered, len(stay)), strict=True)))


def gather(parts: list[Part], n: int) -> list[Any]:
    """Return the values of parts that together are all of n blocks."""
    if len(parts) == 1:
        return parts[0][1]
    return [merge([(_indices(chosen, n), values[i]) for chosen, values in parts], n) for i in range(len(parts[0][1]))]


def _indices(chosen: Array | None, n: int) -> Array:
    return np.arange(n) if chosen is None else chosen


@builds("if")
def _if(op: Op, compiler: Compiler) -> Step:
    condition, results = compiler.use(op, "condition"), compiler.results(op)
    arms = [compiler.region(region) for region in op.regions]
    if len(arms) == 1:
        arms.append(Region([]))

    def step(frame: Frame) -> Transfer | None:
        taken = frame.values[condition]
        first = bool(taken[0])
        if len(taken) == 1 or (taken == first).all():
            outcomes = arms[0 if first else 1].run(frame)
            if len(outcomes) == 1 and outcomes[0].kind == "yield":
                for slot, value in zip(results, outcomes[0].values, strict=True):
                    frame.values[slot] = value
                return None
        else:
            outcomes = []
            for arm, chosen in ((arms[0], np.flatnonzero(taken)), (arms[1], np.flatnonzero(~taken))):
                outcomes += [each.within(chosen) for each in arm.run(frame.take(chosen, arm.uses))]
        done: list[Part] = [(each.chosen, each.values) for each in outcomes if each.kind == "yield"]
        return settle(frame, results, done, [each for each in outcomes if each.kind != "yield"])

    return step


class Turns:
    """A loop's turns for one group of blocks: those that still turn, and those that are done."""

    def __init__(self, frame: Frame, chosen: Array | None, body: Region, carried: list[Any]) -> None:
        self.frame = frame
        self.chosen = chosen
        self.body = body
        self.carried = carried
        self.done: list[Part] = []
        self.escaped: list[Outcome] = []

    def turn(self, params: Iterable[tuple[int, Any]]) -> bool:
        """Run the body once; False when no block is left that turns on."""
        values = self.frame.values
        for slot, value in params:
            values[slot] = value
        outcomes = self.body.run(self.frame)
        if len(outcomes) == 1 and outcomes[0].kind in ("yield", "continue"):
            self.carried = outcomes[0].values
            return True
        on: list[tuple[Array, list[Any]]] = []
        for each in outcomes:
            if each.kind in ("yield", "continue"):
                on.append((_indices(each.chosen, self.frame.n), each.values))
            elif each.kind == "break":
                self.done.append((each.within(self.chosen).chosen, each.values))
            else:
                self.escaped.append(each.within(self.chosen))
        if not on:
            return False
        rest = np.sort(np.concatenate([chosen for chosen, _ in on]))
        self.carried = gather([(np.searchsorted(rest, chosen), values) for chosen, values in on], len(rest))
        self.frame = self.frame.take(rest)
        self.chosen = rest if self.chosen is None else self.chosen[rest]
        return True

    def finish(self) -> None:
        """End the loop for the blocks that still turn."""
        self.done.append((self.chosen, self.carried))


@builds("for")
def _for(op: Op, compiler: Compiler) -> Step:
    lower, upper, stride = (compiler.use(op, name) for name in ("lower_bound", "upper_bound", "step"))
    init, results = compiler.use_group(op, "init_values"), compiler.results(op)
    body = compiler.region(op.regions[0])
    induction, *carried = body.params
    is_unsigned = flag(op, "unsigned_cmp")
    count = _trip_counter(is_unsigned)
    site = Site.of(op)

    def loop(frame: Frame, chosen: Array | None, trips: int) -> Turns:
        values = frame.values
        turns = Turns(frame, chosen, body, [values[slot] for slot in init])
        start, by = values[lower], values[stride]
        for i in range(trips):
            at = (start.astype(np.int64) + by.astype(np.int64) * i).astype(start.dtype)
            params = [(induction, at), *zip(carried, turns.carried, strict=True)]
            before = turns.frame
            before.run.turned(before, site)
            if not turns.turn(params):
                return turns
            if turns.frame is not before:  # some left the loop
                start, by = turns.frame.values[lower], turns.frame.values[stride]
        turns.finish()
        return turns

    def step(frame: Frame) -> Transfer | None:
        values = frame.values
        by = unsigned(values[stride]) if is_unsigned else values[stride]
        if not (by > 0).all():
            wrong = int(np.flatnonzero(~(by > 0))[0])
            raise site.error(
                "endless",
                f"the loop's step is {by[wrong]}: it has to be positive",
                frame.run.coordinates(int(frame.blocks[wrong])),
            )
        trips = count(values[lower], values[upper], by)
        if len(trips) == 1 or (trips == trips[0]).all():
            turns = loop(frame, None, int(trips[0]))
            return settle(frame, results, turns.done, turns.escaped)
        done: list[Part] = []
        escaped: list[Outcome] = []
        slots = body.uses | {lower, stride, *init}
        for trip in np.unique(trips).tolist():
            chosen = np.flatnonzero(trips == trip)
            turns = loop(frame.take(chosen, slots), chosen, trip)
            done += turns.done
            escaped += turns.escaped
        return settle(frame, results, done, escaped)

    return step


def _trip_counter(is_unsigned: bool) -> Callable[[Array, Array, Array], Array]:
    def count(lower: Array, upper: Array, step: Array) -> Array:
        if is_unsigned:
            lower, upper = unsigned(lower), unsigned(upper)
        if len(lower) == len(upper) == len(step) == 1:
            distance_of_one = int(upper[0]) - int(lower[0])
            return np.array([max(0, min(-(-distance_of_one // int(step[0])), _MOST_TURNS))])
        # The distance may be more than a signed number holds.
        ahead = upper > lower
        distance = np.where(ahead, upper.astype(np.uint64) - lower.astype(np.uint64), np.uint64(1))
        trips = ((distance - np.uint64(1)) // step.astype(np.uint64) + np.uint64(1)) * ahead
        return np.asarray(np.minimum(trips, np.uint64(_MOST_TURNS)).astype(np.int64))

    return count


@builds("loop")
def _loop(op: Op, compiler: Compiler) -> Step:
    init, results = compiler.use_group(op, "init_values"), compiler.results(op)
    body = compiler.region(op.regions[0])
    site = Site.of(op)

    def step(frame: Frame) -> Transfer | None:
        turns = Turns(frame, None, body, [frame.values[slot] for slot in init])
        for _ in range(frame.run.options.iterations):
            frame.run.turned(turns.frame, site)
            if not turns.turn(zip(body.params, turns.carried, strict=True)):
                return settle(frame, results, turns.done, turns.escaped)
        raise site.error(
            "endless",
            f"the loop turned {frame.run.options.iterations} times without a break; if it waits for another block, "
            "that block comes later or waits itself",
            frame.run.coordinates(int(turns.frame.blocks[0])),
        )

    return step
