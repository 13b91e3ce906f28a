# SPDX-License-Identifier: MIT
"""A function of the IR, compiled once: values get slots, operations become closures, blocks become regions."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator

from tilegym_rs_backend.tile_ir.execute.agreement import check
from tilegym_rs_backend.tile_ir.execute.errors import MALFORMED
from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.errors import Site
from tilegym_rs_backend.tile_ir.execute.frame import Region
from tilegym_rs_backend.tile_ir.execute.frame import Step
from tilegym_rs_backend.tile_ir.execute.program import BATCH_ELEMENTS
from tilegym_rs_backend.tile_ir.execute.program import MATRIX_BATCH_ELEMENTS
from tilegym_rs_backend.tile_ir.execute.program import Program
from tilegym_rs_backend.tile_ir.execute.registry import BUILDERS
from tilegym_rs_backend.tile_ir.model import Block
from tilegym_rs_backend.tile_ir.model import Module
from tilegym_rs_backend.tile_ir.model import Op
from tilegym_rs_backend.tile_ir.model import Value
from tilegym_rs_backend.tile_ir.types import TileType

_BUILDER_MODULES = (
    *("floats", "integers", "convert", "shapes", "mma", "reduce"),
    *("control", "views", "pointers", "atomics", "misc"),
)
for _name in _BUILDER_MODULES:
    importlib.import_module(f"tilegym_rs_backend.tile_ir.execute.{_name}")

_APPROXIMATE = ("approx", "full")


class Compiler:
    """Slots of one function's values; builders ask it for the slots of operands and results and for regions."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.slots: dict[int, int] = {}
        self.approximate: set[str] = set()
        self._uses: list[set[int]] = []
        self._keep: list[Value] = []

    def slot(self, value: Value) -> int:
        """Return the slot of a value, its own from the first call on."""
        found = self.slots.get(id(value))
        if found is None:
            found = self.slots[id(value)] = len(self.slots)
            self._keep.append(value)  # ids stay unique while the values live
        return found

    def read(self, value: Value) -> int:
        """Return the slot of a value that the operation being compiled reads."""
        slot = self.slot(value)
        for uses in self._uses:
            uses.add(slot)
        return slot

    def use(self, op: Op, name: str) -> int:
        """Return the slot of the operand `name`."""
        value = op.operand(name)
        if value is None:
            raise ExecutionError("unsupported", f"the operand {name} is missing", op=op.opcode, loc=op.loc)
        return self.read(value)

    def use_optional(self, op: Op, name: str) -> int | None:
        """Return the slot of the operand `name`, None where it is absent."""
        value = op.operand(name)
        return None if value is None else self.read(value)

    def use_group(self, op: Op, name: str) -> list[int]:
        """Return the slots of a variadic operand."""
        return [self.read(value) for value in op.group(name)]

    def results(self, op: Op) -> list[int]:
        """Return the slots of an operation's results."""
        return [self.slot(value) for value in op.results]

    def region(self, block: Block) -> Region:
        """Compile a block."""
        self._uses.append(set())
        region = Region([self.slot(value) for value in block.params])
        region.steps = [self.step(op) for op in block.ops]
        region.sites = [Site.of(op) for op in block.ops]
        region.uses = self._uses.pop()
        return region

    def step(self, op: Op) -> Step:
        """Compile an operation."""
        builder = BUILDERS.get(op.opcode)
        if builder is None:
            raise ExecutionError("unsupported", f"{op.opcode} has no execution on a CPU", op=op.opcode, loc=op.loc)
        mode = op.attributes.get("rounding_mode")
        if mode in _APPROXIMATE:
            self.approximate.add(f"{op.opcode} {mode}")
        try:
            check(op)
            return builder(op, self)
        except ExecutionError as error:
            if not error.op:
                error.op, error.loc = op.opcode, op.loc
            raise
        except MALFORMED as error:
            text = f"an attribute, a type or a number of operands does not fit: {type(error).__name__}: {error}"
            raise ExecutionError("malformed", text, op=op.opcode, loc=op.loc) from error


def compile_function(module: Module, entry: str | None = None) -> Program:
    """Compile one entry of a module.

    Args:
        module: what the reader gave.
        entry: its name; None where there is only one.

    Raises:
        ExecutionError: kind ``"unsupported"``: an operation or type that a CPU cannot execute.
        KeyError: no such entry.
    """
    function = module.entry(entry)
    compiler = Compiler(module)
    body = compiler.region(function.body)
    largest = max(_tile_sizes(function.body), default=1)
    return Program(
        name=function.name,
        params=tuple(value.type for value in function.params),
        body=body,
        slots=len(compiler.slots),
        largest_tile=largest,
        batch_elements=MATRIX_BATCH_ELEMENTS if _multiplies(function.body) else BATCH_ELEMENTS,
        sequential=_spins(function.body),
        globals=tuple(module.globals),
        approximate=tuple(sorted(compiler.approximate)),
        site=Site(function.name, function.loc),
    )


def _tile_sizes(block: Block) -> Iterator[int]:
    for _, op in block.walk():
        for value in op.results:
            if isinstance(value.type, TileType):
                yield math.prod(value.type.shape)


def _multiplies(block: Block) -> bool:
    return any(op.opcode.startswith("mma") for _, op in block.walk())


def _spins(block: Block) -> bool:
    """Whether blocks may wait for each other: then each must run to its end before the next begins."""
    ops = [op.opcode for _, op in block.walk()]
    if "atomic_cas_tko" in ops:
        return True
    loops = (op for _, op in block.walk() if op.opcode == "loop")
    return any(inner.opcode.startswith("atomic") or _acquires(inner) for loop in loops for inner in _inside(loop))


def _inside(op: Op) -> Iterator[Op]:
    for region in op.regions:
        for _, inner in region.walk():
            yield inner


def _acquires(op: Op) -> bool:
    return op.attributes.get("memory_ordering_semantics") in ("acquire", "acq_rel")
