# SPDX-License-Identifier: MIT
"""Our backend's name for tests that know ``cutile`` by name: they skip for ours what they skip for that."""

from __future__ import annotations

import ast
import functools
import sys
from pathlib import Path

REPLACED = "cutile"
_SKIPS = ("skip", "xfail")


class StandIn(str):
    """A backend's name, equal to ``cutile`` too where a comparison decides nothing but a skip.

    ``if backend == "cutile" and transposed: pytest.skip(..)`` skips, and ``if backend != "cutile": pytest.skip(..)``
    does not. Anywhere else it is the name that it is: a test
    that calls other code for ``cutile`` must not call that for ours.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str(self) == other or _stands_for(other)

    def __ne__(self, other: object) -> bool:
        return str(self) != other and not _stands_for(other)

    __hash__ = str.__hash__


def _stands_for(other: object) -> bool:
    """Whether a comparison with this, two frames up, is to be taken as one of ``cutile``."""
    if type(other) is not str or other != REPLACED:
        return False
    frame = sys._getframe(2)
    return frame.f_lineno in _skipping_lines(frame.f_code.co_filename)


@functools.cache
def _skipping_lines(file: str) -> frozenset[int]:
    """The lines of a file's conditions under which there is nothing but a skip."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return frozenset()
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and not node.orelse and _only_skips(node.body):
            found.update(range(node.test.lineno, (node.test.end_lineno or node.test.lineno) + 1))
    return frozenset(found)


def _only_skips(body: list[ast.stmt]) -> bool:
    return all(
        (isinstance(each, ast.Expr) and _is_skip(each.value))
        or (isinstance(each, ast.If) and not each.orelse and _only_skips(each.body))
        for each in body
    )


def _is_skip(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _SKIPS
