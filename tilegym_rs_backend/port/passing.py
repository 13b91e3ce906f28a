# SPDX-License-Identifier: MIT
"""The words that cuTile Python's launcher passes to a kernel, and those that a translation's machine code takes.

Both are flattened alike (of a tensor its address, extents and strides; of a list its table's address and length; a
scalar as it is; no constants), but they come from different compilers: before code of ours is handed to the launcher,
the two are compared word by word.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

from ..tensors import SCALAR_FORMATS

if TYPE_CHECKING:
    from .entries import Entry

_ADDRESS_BYTES = 8
_RUST_TYPES = {"int32": "i32", "int64": "i64", "float32": "f32", "bool": "bool", "bool_": "bool"}
_INDEX_TYPE = "i32"


class Word(NamedTuple):
    """One parameter of a kernel.

    Attributes:
        argument: index into the launch's arguments.
        part: what of it: ``"address"``, ``"extent"``, ``"stride"``, ``"length"`` or ``"scalar"``.
        axis: of an extent or stride.
        type: a Rust type, ``""`` of an address.
    """

    argument: int
    part: str
    axis: int = 0
    type: str = ""

    @property
    def size(self) -> int:
        """In bytes."""
        return struct.calcsize(SCALAR_FORMATS[self.type]) if self.type else _ADDRESS_BYTES


def words_passed(parameters: Sequence[Any]) -> list[Word] | None:
    """Return what the launcher passes for a signature's parameters, None if that is not known here."""
    words: list[Word] = []
    for argument, constraint in enumerate(parameters):
        kind = type(constraint).__name__
        if kind == "ArrayConstraint":
            index_type = _RUST_TYPES[constraint.index_dtype.name]
            words += _tensor(argument, constraint.ndim, index_type)
        elif kind == "ListConstraint":
            words += [Word(argument, "address"), Word(argument, "length", type=_INDEX_TYPE)]
        elif kind == "ScalarConstraint" and constraint.dtype.name in _RUST_TYPES:
            words.append(Word(argument, "scalar", type=_RUST_TYPES[constraint.dtype.name]))
        elif not _is_constant(constraint):
            return None
    return words


def words_taken(entry: Entry, parameters: Sequence[dict[str, Any]]) -> list[Word]:
    """Return what an entry takes.

    Args:
        entry: says which argument each parameter is given.
        parameters: of the entry, as the library describes them (``Library.kernel``).
    """
    words: list[Word] = []
    for (kind, argument, axis), parameter in zip(entry.arguments, parameters, strict=True):
        if parameter["kind"] == "scalar":
            words.append(Word(argument, kind, axis, parameter["type"]))
        else:
            words += _tensor(argument, parameter.get("rank", 0), _INDEX_TYPE)
    return words


def _tensor(argument: int, rank: int, index_type: str) -> Iterator[Word]:
    yield Word(argument, "address")
    for part in ("extent", "stride"):
        yield from (Word(argument, part, axis, index_type) for axis in range(rank))


def _is_constant(constraint: Any) -> bool:
    items = getattr(constraint, "items", None)
    return type(constraint).__name__ == "ConstantConstraint" if items is None else all(map(_is_constant, items))
