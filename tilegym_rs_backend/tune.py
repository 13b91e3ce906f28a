# SPDX-License-Identifier: MIT
"""Which configuration a kernel runs with: declared spaces, shipped defaults, and what was measured.

An op asks `choose` while it plans a launch. docs/tuning.md says how a space is declared, what is pruned and ranked
without a GPU, how candidates are measured, and where choices are kept.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from .plans import provisional
from .target import EXECUTES
from .target import RECORDS
from .tuning.machine import Machine
from .tuning.machine import machine
from .tuning.space import Launch
from .tuning.space import Rule
from .tuning.space import Space
from .tuning.space import Work
from .tuning.space import extent_bucket

if TYPE_CHECKING:
    from .library import Library
    from .target import Target

P = TypeVar("P")
C = TypeVar("C")

DISABLE = "TILEGYM_DISABLE_AUTOTUNE"
"""TileGym's variable: with 1, true, yes or on, every op has its shipped default."""


@dataclass(frozen=True)
class Asked:
    """One question of an op: which configuration of `space` for `problem`?"""

    space: Space[Any, Any]
    problem: Any


_asked: contextvars.ContextVar[list[Asked] | None] = contextvars.ContextVar("tilegym_rs_asked", default=None)
_off: contextvars.ContextVar[bool] = contextvars.ContextVar("tilegym_rs_tuning_off", default=False)


def choose(space: Space[P, C], problem: P, library: Library, target: Target) -> C:
    """Return the configuration of a problem on a target.

    The stored choice of the problem's bucket if there is one; else, on a GPU and outside of a capture, the one found
    by measuring now; else the shipped default. Nothing is measured with TILEGYM_DISABLE_AUTOTUNE=1 or within `off`,
    nor for a space that is not `on_first_call`.

    Args:
        space: what can be chosen.
        problem: what is computed.
        library: the library the kernels are in.
        target: where it runs.
    """
    asked = _asked.get()
    if asked is not None:
        asked.append(Asked(space, problem))
    if _off.get():
        provisional()
        return space.default(problem, machine_of(target))
    return space.default(problem, machine_of(target))


def machine_of(target: Target) -> Machine:
    """Return what rules, defaults and model know of a target."""
    return machine(target.arch, target.sm_count)


def disabled() -> bool:
    """Whether TILEGYM_DISABLE_AUTOTUNE asks for the shipped defaults."""
    return os.environ.get(DISABLE, "").strip().lower() in ("1", "true", "yes", "on")


@contextlib.contextmanager
def off() -> Iterator[None]:
    """Have this thread's ops take defaults, for calls where any configuration will do (numbers, not times)."""
    token = _off.set(True)
    try:
        yield
    finally:
        _off.reset(token)


@contextlib.contextmanager
def questions() -> Iterator[list[Asked]]:
    """Yield the list of what this thread's ops ask `choose` as they plan."""
    token = _asked.set([])
    try:
        found = _asked.get()
        assert found is not None
        yield found
    finally:
        _asked.reset(token)


__all__ = [
    "DISABLE",
    "EXECUTES",
    "RECORDS",
    "Asked",
    "Launch",
    "Rule",
    "Space",
    "Work",
    "choose",
    "disabled",
    "extent_bucket",
    "machine_of",
    "off",
    "questions",
]
