# SPDX-License-Identifier: MIT
"""Operation name -> the function that compiles an operation to a closure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any

from tilegym_rs_backend.tile_ir.execute.errors import ExecutionError
from tilegym_rs_backend.tile_ir.execute.frame import Step

if TYPE_CHECKING:
    from tilegym_rs_backend.tile_ir.execute.compile import Compiler
    from tilegym_rs_backend.tile_ir.model import Op

Builder = Callable[["Op", "Compiler"], Step]
BUILDERS: dict[str, Builder] = {}


def builds(*opcodes: str) -> Callable[[Builder], Builder]:
    """Register the decorated function for these operations."""

    def register(builder: Builder) -> Builder:
        for opcode in opcodes:
            BUILDERS[opcode] = builder
        return builder

    return register


def flag(op: Op, name: str) -> bool:
    """Return a boolean attribute."""
    return bool(op.attributes[name])


def text(op: Op, name: str) -> str:
    """Return an enum or string attribute."""
    value = op.attributes[name]
    if not isinstance(value, str):
        raise ExecutionError("unsupported", f"{op.opcode}: attribute {name} is {value!r}", op=op.opcode, loc=op.loc)
    return value


def number(op: Op, name: str) -> int:
    """Return an integer attribute."""
    value = op.attributes[name]
    if not isinstance(value, int):
        raise ExecutionError("unsupported", f"{op.opcode}: attribute {name} is {value!r}", op=op.opcode, loc=op.loc)
    return value


def numbers(op: Op, name: str) -> tuple[Any, ...]:
    """Return an attribute that is a list."""
    value = op.attributes[name]
    if not isinstance(value, tuple):
        raise ExecutionError("unsupported", f"{op.opcode}: attribute {name} is {value!r}", op=op.opcode, loc=op.loc)
    return value


def unary(op: Op, compiler: Compiler, function: Callable[[Any], Any], name: str = "source") -> Step:
    """Return the step result = function(operand)."""
    source, target = compiler.use(op, name), compiler.slot(op.result)

    def step(frame: Any) -> None:
        values = frame.values
        values[target] = function(values[source])

    return step


def binary(op: Op, compiler: Compiler, function: Callable[[Any, Any], Any], a: str = "lhs", b: str = "rhs") -> Step:
    """Return the step result = function(a, b)."""
    left, right, target = compiler.use(op, a), compiler.use(op, b), compiler.slot(op.result)

    def step(frame: Any) -> None:
        values = frame.values
        values[target] = function(values[left], values[right])

    return step
