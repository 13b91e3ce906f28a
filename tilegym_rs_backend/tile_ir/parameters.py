# SPDX-License-Identifier: MIT
"""Which parameter of one kernel plays the role of which of another's, judged by what it is used for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable
from collections.abc import Iterator

from tilegym_rs_backend.tile_ir.model import Function
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value

# How far a parameter's uses are followed: what agrees farthest is matched first.
_REACH = (12, 8, 5, 3, 2, 1)
_COPIES = frozenset(("assume", "reshape", "broadcast"))


def match_parameters(ours: Function, theirs: Function) -> list[int]:
    """For each parameter of ``theirs``, the number of the parameter of ``ours`` that is used alike.

    Parameters whose uses nobody can tell apart are matched in order; one without a counterpart gets a number of its
    own, from ``len(ours.params)`` on.
    """
    found: dict[int, int] = {}
    numbers: dict[Hashable, int] = {}
    sides = _Roles(ours, numbers), _Roles(theirs, numbers)
    for reach in _REACH:
        mine = sides[0].parameters(reach, set(found.values()))
        for role, indices in sides[1].parameters(reach, set(found)).items():
            candidates = mine.get(role, [])
            if len(candidates) == len(indices):
                found.update(zip(indices, candidates, strict=True))
    spare = iter(range(len(ours.params), len(ours.params) + len(theirs.params)))
    return [found[i] if i in found else next(spare) for i in range(len(theirs.params))]


class _Roles:
    """What a function's values are used for; equal uses have equal numbers in all functions that share ``numbers``."""

    def __init__(self, function: Function, numbers: dict[Hashable, int]) -> None:
        self.function = function
        self.numbers = numbers
        self.users: dict[Value, list[tuple[Op, str, int]]] = defaultdict(list)
        self.known: dict[tuple[Value, int], int] = {}
        for _, op in function.body.walk():
            for name, where in op.segments.items():
                for place, value in enumerate(op.operands[where]):
                    self.users[value].append((op, name, place))

    def parameters(self, reach: int, taken: set[int]) -> dict[Hashable, list[int]]:
        """(type, role) -> the parameters that have it, but for those taken."""
        found: dict[Hashable, list[int]] = defaultdict(list)
        for index, value in enumerate(self.function.params):
            if index not in taken:
                found[value.type, self.role(value, reach)].append(index)
        return found

    def _uses(self, value: Value) -> Iterator[tuple[Op, str, int]]:
        """The operations that use a value, or a copy of it, however many copies there are in between."""
        pending = [value]
        while pending:
            for op, name, place in self.users.get(pending.pop(), ()):
                if op.opcode in _COPIES:
                    pending += op.results
                else:
                    yield op, name, place

    def role(self, value: Value, reach: int) -> int:
        """The number of what a value is used for, ``reach`` operations far."""
        key = (value, reach)
        if key not in self.known:
            uses: set[Hashable] = set()
            for op, name, place in self._uses(value) if reach else ():
                inner = [self.role(result, reach - 1) for result in op.results]
                types = tuple(result.type for result in op.results)
                uses.add((op.opcode, name, place, types, *inner))
            self.known[key] = self.numbers.setdefault(frozenset(uses), len(self.numbers))
        return self.known[key]
