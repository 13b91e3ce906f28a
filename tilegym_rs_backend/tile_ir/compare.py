# SPDX-License-Identifier: MIT
"""How two kernels' Tile IR differs, in categories with stable ids, each with both sides' values.

The ids are part of reports and of CI gates: ``memory_family``, ``tile_shape``, ``reduction``, ``mma``, ``control``,
``hint``. What remains (arithmetic, reshapes) is listed by operation counts, without a category.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field

from tilegym_rs_backend.tile_ir.listing import KernelIr

CATEGORIES = ("memory_family", "tile_shape", "reduction", "mma", "control", "hint")

# Both front ends write these differently without any effect on the machine code, or a category covers them.
_UNCOUNTED = frozenset(
    [
        *("constant", "assume", "make_token", "join_tokens", "reshape", "broadcast"),
        *("make_tensor_view", "make_partition_view", "make_strided_view", "make_gather_scatter_view"),
        *("get_tensor_shape", "get_index_space_shape", "yield", "continue", "break", "return", "for", "loop", "if"),
        *("load_view_tko", "store_view_tko", "load_ptr_tko", "store_ptr_tko", "reduce", "scan"),
        *("mmaf", "mmai", "mmaf_scaled"),
    ]
)


@dataclass(frozen=True)
class Difference:
    """One named difference.

    Attributes:
        category: one of ``CATEGORIES``.
        what: what was compared, in words.
        ours: our side's value; ``theirs`` is the peer's.
    """

    category: str
    what: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.category}: {self.what}: ours {self.ours}, theirs {self.theirs}"

    def to_dict(self) -> dict[str, str]:
        """JSON form."""
        return {"category": self.category, "what": self.what, "ours": self.ours, "theirs": self.theirs}


@dataclass(frozen=True)
class Comparison:
    """All differences of one pair of kernels.

    Attributes:
        differences: by category, in the order of ``CATEGORIES``.
        operations: operation -> (count ours, count theirs), where they differ and no category covers them.
    """

    differences: tuple[Difference, ...]
    operations: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories with a difference, in their fixed order."""
        found = {difference.category for difference in self.differences}
        return tuple(category for category in CATEGORIES if category in found)

    @property
    def equal(self) -> bool:
        """Nothing differs at the level of this comparison (it follows no values: equality is not proven)."""
        return not self.differences and not self.operations

    def summary(self) -> str:
        """One line for a verdict."""
        if self.equal:
            return "no difference in operations, tile shapes, memory families, control flow or hints"
        parts = [str(difference) for difference in self.differences]
        if self.operations:
            parts.append("other operations: " + ", ".join(f"{n} {a}/{b}" for n, (a, b) in self.operations.items()))
        return "; ".join(parts)


def compare_kernels(ours: KernelIr, theirs: KernelIr, arch: str) -> Comparison:
    """Compare two kernels' listings as compiled for ``arch``."""
    found: list[Difference] = []

    def check(category: str, what: str, a: Counter[str], b: Counter[str]) -> None:
        if a != b:
            found.append(Difference(category, what, _text(a, b), _text(b, a)))

    if set(ours.families) != set(theirs.families):
        found.append(
            Difference("memory_family", "how memory is reached", _families(ours.families), _families(theirs.families))
        )
    else:
        check("memory_family", "number of memory operations", ours.families, theirs.families)
    check("memory_family", "padding of view loads", ours.paddings, theirs.paddings)
    check("tile_shape", "tiles moved", ours.accesses, theirs.accesses)
    check("reduction", "reductions and scans", ours.reductions, theirs.reductions)
    check("mma", "matrix products", ours.products, theirs.products)
    check("control", "loops and branches", ours.control, theirs.control)
    hints = ours.hints(arch), theirs.hints(arch)
    for name in sorted(set(hints[0]) | set(hints[1])):
        a, b = (str(side.get(name, "compiler's default")) for side in hints)
        if a != b:
            found.append(Difference("hint", name, a, b))
    check("hint", "hints of operations", ours.operation_hints(arch), theirs.operation_hints(arch))
    names = sorted((set(ours.counts) | set(theirs.counts)) - _UNCOUNTED)
    operations = {
        name: (ours.counts[name], theirs.counts[name]) for name in names if ours.counts[name] != theirs.counts[name]
    }
    return Comparison(tuple(found), operations)


def _families(families: Counter[str]) -> str:
    words = {
        "view load": "view loads (TMA)",
        "view store": "view stores (TMA)",
        "pointer load": "pointer loads (gather)",
    }
    words["pointer store"] = "pointer stores (scatter)"
    return ", ".join(words.get(name, name) for name in sorted(families)) or "none"


def _text(own: Counter[str], other: Counter[str]) -> str:
    """What one side has of everything in which the sides differ."""
    names = sorted(name for name in own if own[name] != other[name])
    return ", ".join(f"{own[name]} x {name}" for name in names) or "none of these"
