# SPDX-License-Identifier: MIT
"""Which configuration a kernel runs with: declared spaces, shipped defaults, and what was measured.

An op asks `choose` while it plans a launch. docs/tuning.md says how a space is declared, what is pruned and ranked
without a GPU, how candidates are measured, and where choices are kept.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from .errors import TilegymRsError
from .plans import forget_plans
from .plans import provisional
from .progress import Heartbeat
from .progress import say
from .tuning import here
from .tuning.choices import Choice
from .tuning.choices import Choices
from .tuning.choices import Key
from .tuning.flight import single_flight
from .tuning.machine import Machine
from .tuning.machine import machine
from .tuning.space import Launch
from .tuning.space import Rule
from .tuning.space import Space
from .tuning.space import Work
from .tuning.space import extent_bucket
from .tuning.space import text

if TYPE_CHECKING:
    from .library import Library
    from .target import Target
    from .tuning.compile import Progress

P = TypeVar("P")
C = TypeVar("C")

DISABLE = "TILEGYM_DISABLE_AUTOTUNE"
"""TileGym's variable: with 1, true, yes or on, every op has its shipped default."""

_log = logging.getLogger("tilegym_rs_backend.tune")


@dataclass(frozen=True)
class Asked:
    """One question of an op: which configuration of `space` for `problem`?

    Attributes:
        space, problem, library, target: of the question.
        choice: the stored or measured choice that answered it, None where the default did.
    """

    space: Space[Any, Any]
    problem: Any
    library: Library
    target: Target
    choice: Choice | None = None


_questions: contextvars.ContextVar[list[Asked] | None] = contextvars.ContextVar("tilegym_rs_questions", default=None)
_off: contextvars.ContextVar[bool] = contextvars.ContextVar("tilegym_rs_tuning_off", default=False)
_stands_for: contextvars.ContextVar[int | None] = contextvars.ContextVar("tilegym_rs_stands_for", default=None)
_known: dict[str, Choice | None] = {}  # by key digest; None where a search had no result


def choose(space: Space[P, C], problem: P, library: Library, target: Target) -> C:
    """Return the configuration of a problem on a target.

    The stored choice of the problem's bucket if there is one; else, on a GPU and outside of a capture, the one found
    by measuring now; else the shipped default. Nothing is measured with TILEGYM_DISABLE_AUTOTUNE=1 or within `off`,
    nor for a space that is not `on_first_call`. A search without a result is logged, and the default runs.

    Args:
        space: what can be chosen.
        problem: what is computed.
        library: the library the kernels are in.
        target: where it runs.
    """
    choice = _choice(space, problem, library, target)
    here_machine = machine_of(target)
    config = None if choice is None else _fitting(space, problem, here_machine, choice)
    if config is None:
        choice, config = None, space.default(problem, here_machine)
    asked = _questions.get()
    if asked is not None:
        asked.append(Asked(space, problem, library, target, choice))
    return config


def _choice(space: Space[P, C], problem: P, library: Library, target: Target) -> Choice | None:
    """Return what was or is now measured for a problem; None: the default it is."""
    device = target.index if target.index >= 0 else _stands_for.get()
    if _off.get():
        provisional()
        return None
    if device is None or disabled():
        return None
    key = here.key_of(space, problem, library, machine_of(target), device)
    if key.digest in _known:
        return _known[key.digest]
    stored = here.choices().get(key)
    if stored is not None:
        _known[key.digest] = stored
        return stored
    if target.index < 0 or not space.on_first_call:
        return None
    if _capturing():
        provisional()
        return None
    try:
        heartbeat = Heartbeat(say)
        where = f"{space.name} {text(key.bucket)}"
        return search(
            Asked(space, problem, library, target),
            key=key,
            progress=lambda done, count: heartbeat.beat(f"tuning {where}: {done} of {count} candidates compiled"),
        )
    except TilegymRsError as error:
        _log.warning("%s %s runs with its default: %s", space.name, text(key.bucket), error)
        _known[key.digest] = None
        return None


def search(
    asked: Asked, *, key: Key | None = None, again: bool = False, progress: Progress | None = None, **terms: Any
) -> Choice:
    """Return the choice of a problem, measured now on the target's device unless the store has it.

    A plan in the store is measured as it is; without one, the likeliest candidates are compiled first.

    Args:
        asked: the problem; its target is a CUDA device.
        key: the choice's key, if known.
        again: measure even if the store has a choice.
        progress: told (done, all) of compiling.
        terms: keyword arguments of `tuning.search.measure`.

    Raises:
        TuningError: every candidate failed.
        WorkerUnavailable: nothing can be measured on the device.
    """
    from .tuning.search import Problem
    from .tuning.search import measure
    from .tuning.search import plan

    one = Problem(asked.space, asked.problem, asked.library, machine_of(asked.target))
    key = key or one.key(asked.target.index)
    store = here.choices()
    with single_flight(key.digest):
        found = None if again else store.get(key)
        if found is None:
            begin = time.perf_counter()
            planned = store.get(here.plan_key(key)) or plan(one, progress=progress)
            found = measure(one, planned, asked.target.index, **terms)
            store.put(found)
            _log.info("%s", summary(found, time.perf_counter() - begin))
    _known[key.digest] = found
    forget_plans()
    return found


def plan_offline(asked: Asked, *, again: bool = False, progress: Progress | None = None, **limits: Any) -> Choice:
    """Return the plan of a problem: compiled, pruned and ranked, without a GPU; kept in the store.

    Args:
        asked: the problem; its target is a recorder.
        again: make it even if the store has one.
        progress: told (done, all) of compiling.
        limits: keyword arguments of `tuning.search.plan`.

    Raises:
        TuningError: nothing could be compiled.
    """
    from .tuning.search import Problem
    from .tuning.search import plan

    one = Problem(asked.space, asked.problem, asked.library, machine_of(asked.target))
    store = here.choices()
    key = one.plan_key()
    with single_flight(key.digest):
        found = None if again else store.get(key)
        if found is None:
            found = plan(one, progress=progress, **limits)
            store.put(found)
    return found


def summary(choice: Choice, seconds: float) -> str:
    """Return one line on a search."""
    measured = sum(1 for each in choice.tried if each.us)
    gain = f", {choice.default_us / choice.us:.3f} x the default" if choice.us and choice.default_us else ""
    where = f"{choice.key.space} {text(choice.key.bucket)}"
    return f"{where}: {text(choice.config)}: {choice.us:g} us{gain}; {measured} measured in {seconds:.1f} s"


def machine_of(target: Target) -> Machine:
    """Return what rules, defaults and model know of a target."""
    return machine(target.arch, target.sm_count)


def disabled() -> bool:
    """Whether TILEGYM_DISABLE_AUTOTUNE asks for the shipped defaults."""
    return os.environ.get(DISABLE, "").strip().lower() in ("1", "true", "yes", "on")


def forget() -> None:
    """Forget the choices that this process has read or made; what is stored stays."""
    _known.clear()
    forget_plans()


@contextlib.contextmanager
def off() -> Iterator[None]:
    """Have this thread's ops take defaults, for calls where any configuration will do (numbers, not times)."""
    token = _off.set(True)
    try:
        yield
    finally:
        _off.reset(token)


@contextlib.contextmanager
def standing_for(device: int) -> Iterator[None]:
    """Have launches that are only recorded take the choices stored for a CUDA device."""
    token = _stands_for.set(device)
    try:
        yield
    finally:
        _stands_for.reset(token)


@contextlib.contextmanager
def questions() -> Iterator[list[Asked]]:
    """Yield the list of what this thread's ops ask `choose` as they plan."""
    found: list[Asked] = []
    token = _questions.set(found)
    try:
        yield found
    finally:
        _questions.reset(token)


def _fitting(space: Space[P, C], problem: P, here_machine: Machine, choice: Choice) -> C | None:
    """Return a choice's configuration if this problem of its bucket can have it."""
    config = space.read(choice.config)
    if config is None or config == space.default(problem, here_machine):
        return config
    return None if space.broken(problem, config, here_machine) else config


def _capturing() -> bool:
    import torch

    return torch.cuda.is_current_stream_capturing()


__all__ = [
    "DISABLE",
    "Asked",
    "Choice",
    "Choices",
    "Launch",
    "Rule",
    "Space",
    "Work",
    "choose",
    "disabled",
    "extent_bucket",
    "forget",
    "machine_of",
    "off",
    "plan_offline",
    "questions",
    "search",
    "standing_for",
    "summary",
]
