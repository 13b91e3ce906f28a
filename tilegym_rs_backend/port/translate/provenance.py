# SPDX-License-Identifier: MIT
"""Compile-time numbers that remember which of the kernel's constants they were computed from.

The front end folds constants while it reads a kernel: ``BLOCK // 2`` reaches the IR as 64. Constants are therefore
handed to it as ``DerivedInt`` and ``DerivedFloat``: ordinary numbers whose arithmetic also builds the expression. A
number that lost its expression (a front end function that calls ``int()``) becomes a literal in the text, which is
right for this launch and makes the text of a launch with another value differ.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Number = int | float

_APPLY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}
_WORDS = {
    "+": "PLUS",
    "-": "MINUS",
    "*": "TIMES",
    "/": "OVER",
    "//": "DIV",
    "%": "MOD",
    "min": "MIN",
    "max": "MAX",
    "neg": "NEG",
    "cdiv": "CDIV",
}


@dataclass(frozen=True)
class Expression:
    """A constant's name, a number, or an operator with its operands."""

    op: str
    operands: tuple[Expression, ...] = ()
    value: Number | str = 0

    def evaluate(self, constants: Mapping[str, Any]) -> Number:
        """The number that a launch with these constants computes."""
        if self.op == "name":
            found: Number = constants[str(self.value)]
            return found
        if self.op == "number":
            assert not isinstance(self.value, str)
            return self.value
        values = [operand.evaluate(constants) for operand in self.operands]
        if self.op == "neg":
            return -values[0]
        if self.op == "cdiv":
            return -(-values[0] // values[1])
        result: Number = _APPLY[self.op](*values)
        return result

    @property
    def is_name(self) -> bool:
        """Whether it is one of the kernel's own constants, unchanged."""
        return self.op == "name"

    @property
    def is_number(self) -> bool:
        """Whether no constant takes part."""
        return self.op == "number"

    def identifier(self) -> str:
        """An identifier that tells people the expression: ``BLOCK_DIV_2``."""
        if self.op in ("name", "number"):
            text = str(self.value).replace(".", "P").replace("-", "MINUS_")
            return "".join(c if c.isalnum() else "_" for c in text).strip("_")
        parts = [operand.identifier() for operand in self.operands]
        word = _WORDS[self.op]
        return f"{word}_{parts[0]}" if len(parts) == 1 else f"{parts[0]}_{word}_{parts[1]}"

    def __str__(self) -> str:
        if self.op in ("name", "number"):
            return str(self.value)
        if self.op in ("min", "max", "cdiv"):
            return f"{self.op}({', '.join(map(str, self.operands))})"
        if self.op == "neg":
            return f"-{self.operands[0]}"
        return f"({self.operands[0]} {self.op} {self.operands[1]})"


def expression_of(value: Any) -> Expression:
    """The expression behind a number; an ordinary number is its own."""
    found = getattr(value, "expression", None)
    return found if isinstance(found, Expression) else Expression("number", value=value)


def is_derived(value: Any) -> bool:
    """Whether the number depends on a constant of the kernel."""
    return isinstance(value, DerivedInt | DerivedFloat)


def named(name: str, value: Number) -> Number:
    """Wrap the value of the kernel's constant ``name``; a bool stays as it is, because it decides control flow."""
    expression = Expression("name", value=name)
    if type(value) is int:
        return DerivedInt(value, expression)
    if type(value) is float:
        return DerivedFloat(value, expression)
    return value


class DerivedInt(int):
    """An int with its expression."""

    expression: Expression

    def __new__(cls, value: int, expression: Expression) -> DerivedInt:
        """Wrap ``value``."""
        made = super().__new__(cls, value)
        made.expression = expression
        return made

    # A copy.deepcopy or pickle inside the front end must not lose the expression.
    def __reduce__(self) -> tuple[Any, ...]:
        return DerivedInt, (int(self), self.expression)

    def __neg__(self) -> DerivedInt:
        inner = self.expression
        # -(-a // b) is how the front end rounds a quotient up.
        if inner.op == "//" and inner.operands[0].op == "neg":
            return DerivedInt(-int(self), Expression("cdiv", (inner.operands[0].operands[0], inner.operands[1])))
        return DerivedInt(-int(self), Expression("neg", (inner,)))


class DerivedFloat(float):
    """A float with its expression."""

    expression: Expression

    def __new__(cls, value: float, expression: Expression) -> DerivedFloat:
        """Wrap ``value``."""
        made = super().__new__(cls, value)
        made.expression = expression
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return DerivedFloat, (float(self), self.expression)

    def __neg__(self) -> DerivedFloat:
        return DerivedFloat(-float(self), Expression("neg", (self.expression,)))


def _wrap(result: Any, expression: Expression) -> Any:
    if type(result) is int:
        return DerivedInt(result, expression)
    if type(result) is float:
        return DerivedFloat(result, expression)
    return result


def _arithmetic(base: type, name: str, symbol: str, reflected: bool) -> Callable[[Any, Any], Any]:
    plain = getattr(base, name)

    def method(self: Any, other: Any) -> Any:
        result = plain(self, other)
        if result is NotImplemented:
            return result
        pair = (other, self) if reflected else (self, other)
        return _wrap(result, Expression(symbol, tuple(expression_of(x) for x in pair)))

    return method


for _kind, _base in ((DerivedInt, int), (DerivedFloat, float)):
    for _stem, _symbol in (
        ("add", "+"),
        ("sub", "-"),
        ("mul", "*"),
        ("truediv", "/"),
        ("floordiv", "//"),
        ("mod", "%"),
    ):
        for _prefix, _reflected in (("__", False), ("__r", True)):
            _name = f"{_prefix}{_stem}__"
            setattr(_kind, _name, _arithmetic(_base, _name, _symbol, _reflected))


def with_expression(result: Any, expression: Expression) -> Any:
    """Give a plain number an expression; anything else stays as it is."""
    return _wrap(result, expression)


def combined(symbol: str, result: Any, *operands: Any) -> Any:
    """Give ``result`` the expression ``symbol(operands)`` if an operand has one; for functions that lose it."""
    if not any(is_derived(x) for x in operands):
        return result
    return _wrap(result, Expression(symbol, tuple(expression_of(x) for x in operands)))
