# SPDX-License-Identifier: MIT
"""The state of a batch of tile blocks, and regions as lists of closures over it.

A batch holds n blocks that are at the same operation. A value is an array with a leading block axis of length n, or of
length 1 where all blocks have the same; a token is an integer, a bit for each store it stands behind; a view is a
`View`. Where blocks part (a condition, a trip count that differs), the batch is split and the parts are merged again.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import numpy as np

from tilegym_rs_backend.tile_ir.execute.dtypes import Array
from tilegym_rs_backend.tile_ir.execute.errors import MALFORMED
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.program import Run


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """A tensor in memory: address (1|n,), extents and strides (1|n, rank) in elements, all int64."""

    pointer: Array
    shape: Array
    strides: Array

    def take(self, chosen: Array) -> View:
        """Return the views of the chosen blocks."""
        return View(take(self.pointer, chosen), take(self.shape, chosen), take(self.strides, chosen))


class Frame:
    """A batch: its values by slot, its blocks' numbers (n,), and the run it belongs to."""

    __slots__ = ("blocks", "n", "run", "values")

    def __init__(self, values: list[Any], blocks: Array, run: Run) -> None:
        self.values = values
        self.blocks = blocks
        self.n = len(blocks)
        self.run = run

    def take(self, chosen: Array, slots: Iterable[int] | None = None) -> Frame:
        """Return a batch of the chosen blocks (ascending indices) with the values in `slots`, all by default."""
        values: list[Any] = [None] * len(self.values)
        for slot in range(len(values)) if slots is None else slots:
            values[slot] = take(self.values[slot], chosen)
        return Frame(values, self.blocks[chosen], self.run)


def take(value: Any, chosen: Array) -> Any:
    """Return a value as the chosen blocks see it."""
    if isinstance(value, np.ndarray):
        return value if len(value) == 1 else value[chosen]
    if isinstance(value, View):
        return value.take(chosen)
    return value


def merge(parts: Sequence[tuple[Array, Any]], n: int) -> Any:
    """Return one value for n blocks from (indices, value) of parts of them."""
    first = parts[0][1]
    if isinstance(first, np.ndarray):
        merged = np.empty((n, *first.shape[1:]), first.dtype)
        for chosen, value in parts:
            merged[chosen] = value
        return merged
    if isinstance(first, View):
        return View(
            merge([(chosen, view.pointer) for chosen, view in parts], n),
            merge([(chosen, view.shape) for chosen, view in parts], n),
            merge([(chosen, view.strides) for chosen, view in parts], n),
        )
    token = 0
    for _, value in parts:
        token |= value
    return token


class Outcome(NamedTuple):
    """How some blocks of a batch left a region: by yield, continue, break or return, with which values."""

    kind: str
    chosen: Array | None  # None: all of the batch
    values: list[Any]

    def within(self, outer: Array | None) -> Outcome:
        """Return the outcome in the numbering of the batch that `outer` was taken from."""
        if outer is None:
            return self
        return Outcome(self.kind, outer if self.chosen is None else outer[self.chosen], self.values)


class Transfer(NamedTuple):
    """What a step returns when blocks leave the region it is in.

    ``stay`` are the blocks that go on (None: none), ``results`` the (slot, value) pairs to set for them.
    """

    outcomes: list[Outcome]
    stay: Array | None
    results: list[tuple[int, Any]]


Step = Callable[[Frame], "Transfer | None"]


@dataclass
class Region:
    """A region, compiled: parameter slots, steps, and the slots of outer values it uses."""

    params: list[int]
    steps: list[Step] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    uses: set[int] = field(default_factory=set)

    def run(self, frame: Frame) -> list[Outcome]:
        """Run a batch through the region; its parameters are set already."""
        left: list[Outcome] = []
        outer: Array | None = None
        for step, site in zip(self.steps, self.sites, strict=True):
            try:
                transfer = step(frame)
            except ExecutionError:
                raise
            except MALFORMED as error:
                raise site.error("malformed", f"types do not fit: {type(error).__name__}: {error}") from error
            if transfer is None:
                continue
            left.extend(outcome.within(outer) for outcome in transfer.outcomes)
            if transfer.stay is None:
                return left
            frame = frame.take(transfer.stay)
            outer = transfer.stay if outer is None else outer[transfer.stay]
            for slot, value in transfer.results:
                frame.values[slot] = value
        left.append(Outcome("yield", outer, []))  # a region without a terminator: the empty else
        return left
