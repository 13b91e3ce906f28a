# SPDX-License-Identifier: MIT
"""Builds cases: one id scheme for every case file."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from pytest_cutile_rs.case import Case

BACKWARD = "backward"
"""The parameter of a case that is about gradients; it is not handed to the op."""


def case(
    op: str,
    dtype: str,
    shape: tuple[int, ...],
    *,
    tag: str = "",
    params: Mapping[str, object] | None = None,
    **more: Any,
) -> Case:
    """One case; its id is dtype, shape, ``tag``, layout, data and ``backward`` as far as they say something."""
    given = dict(params or {})
    words = [tag, more.get("layout", ""), more.get("data", ""), BACKWARD if given.get(BACKWARD) else ""]
    name = "-".join([dtype, "x".join(map(str, shape)), *(word for word in words if word)])
    return Case(op, name, dtype, tuple(shape), params=tuple(given.items()), **more)


def cases(op: str, dtypes: Iterable[str], shapes: Iterable[tuple[int, ...]], **more: Any) -> list[Case]:
    """Every shape with every dtype."""
    kinds = tuple(dtypes)
    return [case(op, dtype, shape, **more) for shape in shapes for dtype in kinds]


def options(one: Case) -> dict[str, object]:
    """The op's keyword arguments: the case's parameters without what is about the case itself."""
    return {name: value for name, value in one.params if name != BACKWARD}
