# SPDX-License-Identifier: MIT
"""From a problem to a plan (compiled, pruned, ranked; no GPU), and from a plan to a choice (measured)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from dataclasses import replace
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeVar

from . import here
from .choices import Choice
from .choices import Key
from .choices import Tried
from .compile import Compiled
from .compile import Progress
from .compile import compile_launches
from .job import Spec
from .machine import Machine
from .measure import Runner
from .measure import Terms
from .measure import halve
from .model import predict_compiled
from .model import predict_uncompiled
from .resources import Resources
from .space import Space
from .space import TuningError
from .space import show
from .space import text
from .worker import WorkerRunner

if TYPE_CHECKING:
    from ..library import Library

COMPILED = 48
"""Candidates that are compiled of a problem: the first by the model's reckoning from declared work alone."""
ENOUGH = 16
"""With fewer that fit, half as many more are compiled, at most `MORE` times."""
MORE = 3
MEASURED = 12
"""Candidates of a plan that are measured, the default aside."""

CROWDING = 0.02
"""A candidate is put back by this share for each better one that differs from it in its space's `fine` axes alone."""

R = TypeVar("R")
OpenRunner = Callable[[Spec], AbstractContextManager[Runner]]


@dataclass(frozen=True)
class Problem:
    """One question: a space, a problem, and where."""

    space: Space[Any, Any]
    problem: Any
    library: Library
    machine: Machine

    def plan_key(self) -> Key:
        """Return the key of its plan."""
        return here.key_of(self.space, self.problem, self.library, self.machine, None)

    def key(self, device: int) -> Key:
        """Return the key of its choice on a CUDA device."""
        return here.key_of(self.space, self.problem, self.library, self.machine, device)


def plan(asked: Problem, *, compiled: int = 0, jobs: int | None = None, progress: Progress | None = None) -> Choice:
    """Compile the likeliest candidates of a problem, drop the unfit, rank the rest; nothing is launched.

    Args:
        asked: the problem.
        compiled: how many candidates to compile, the default among them (0: `COMPILED`); more if too few of them fit.
        jobs: how many at a time; default: what the cgroup allows.
        progress: told (done, all).

    Raises:
        TuningError: not one candidate could be compiled.
    """
    begin = time.perf_counter()
    compiled = compiled or COMPILED
    space, problem, machine = asked.space, asked.problem, asked.machine
    found = space.candidates(problem, machine)
    likely = _likeliest(asked, found.kept)
    tried: list[Tried] = []
    for batch in (compiled, *[max(compiled // 2, 1)] * MORE):
        configs = likely[len(tried) : len(tried) + batch]
        if not configs or (tried and sum(not each.why for each in tried) >= min(ENOUGH, compiled)):
            break
        launches = [space.launch(problem, config, machine) for config in configs]
        results = compile_launches(asked.library, launches, machine.arch, jobs=jobs, progress=progress)
        tried += [_tried(asked, config, result) for config, result in zip(configs, results, strict=True)]
    seconds = time.perf_counter() - begin
    if all(not each.spec_text for each in tried):
        raise TuningError(f"{space.name}: no candidate could be compiled: {_reasons(tried)}")
    left_out = dict(found.dropped)
    if len(likely) > len(tried):
        left_out[f"not among the first {len(tried)} by the model"] = len(likely) - len(tried)
    ranked = _ranked(tried, show(space.default(problem, machine)), space.fine)
    best = ranked[0].config if ranked else show(space.default(problem, machine))
    return Choice(
        key=asked.plan_key(),
        config=best,
        tried=(*ranked, *(each for each in tried if each.why)),
        space_size=sum(1 for _ in space.configs()),
        left_out=left_out,
        seconds=round(seconds, 3),
        compile_s=round(seconds, 3),
        when=_now(),
    )


def measure(
    asked: Problem,
    planned: Choice,
    device: int,
    *,
    measured: int = MEASURED,
    terms: Terms | None = None,
    open_runner: OpenRunner | None = None,
) -> Choice:
    """Measure the first of a plan, and the shipped default, on a CUDA device.

    Args:
        asked: the problem.
        planned: its plan.
        device: CUDA index.
        measured: how many of the plan.
        terms: how long.
        open_runner: what runs candidates; default: a process of its own.

    Raises:
        TuningError: every candidate failed.
        WorkerUnavailable: nothing can be measured here.
    """
    begin = time.perf_counter()
    space = asked.space
    default = show(space.default(asked.problem, asked.machine))
    worth = [each for each in planned.tried if not each.why]
    shipped = next((each for each in planned.tried if dict(each.config) == default), Tried(default))
    entries = [shipped, *[each for each in worth if dict(each.config) != default][:measured]]
    configs = tuple(dict(each.config) for each in entries)
    spec = Spec(space.launch.__module__, space.name, asked.problem, configs, device)
    with (open_runner or worker_runner(asked.library))(spec) as runner:
        result = halve(len(entries), runner, terms)
    if result.best < 0:
        reasons = "; ".join(f"{text(configs[index])}: {why}" for index, why in result.failed.items())
        raise TuningError(f"{space.name}: every candidate failed: {reasons}")
    timed = [
        replace(each, us=round(result.us.get(index, 0.0), 3), why=result.failed.get(index, ""))
        for index, each in enumerate(entries)
    ]
    rest = [each for each in planned.tried if dict(each.config) not in configs]
    race = sorted((each for each in timed if each.us), key=lambda each: each.us)
    seconds = time.perf_counter() - begin
    return replace(
        planned,
        key=asked.key(device),
        config=configs[result.best],
        us=round(result.us[result.best], 3),
        default_us=round(result.us.get(0, 0.0), 3),
        tried=(*race, *rest, *(each for each in timed if not each.us)),
        seconds=round(seconds, 3),
        when=_now(),
    )


def worker_runner(library: Library) -> OpenRunner:
    """Return what opens a measuring process that uses `library` as it is."""
    environment = {"TILEGYM_RS_LIBRARY": str(library.path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return lambda spec: WorkerRunner(spec, environment=environment)


def _spread(candidates: Sequence[R], us: Sequence[float], configs: Sequence[Any], fine: Sequence[str]) -> list[R]:
    """Return candidates, the best prediction first, near copies of a better one put back: the model may be wrong."""
    seen: dict[tuple[Any, ...], int] = {}
    order = []
    for place in sorted(range(len(candidates)), key=lambda index: us[index]):
        kind = tuple(value for name, value in configs[place].items() if name not in fine)
        order.append((us[place] * (1 + CROWDING * seen.get(kind, 0)), place))
        seen[kind] = seen.get(kind, 0) + 1
    return [candidates[place] for _, place in sorted(order)]


def _ranked(tried: Sequence[Tried], shipped: Mapping[str, Any], fine: Sequence[str]) -> list[Tried]:
    """Return the fit candidates, the likeliest first; the shipped default leads: measurements chose it."""
    fit = [each for each in tried if not each.why]
    ranked = _spread(fit, [each.predicted_us for each in fit], [each.config for each in fit], fine)
    return sorted(ranked, key=lambda each: dict(each.config) != shipped)


def _likeliest(asked: Problem, configs: Sequence[Any]) -> list[Any]:
    """Return the default, which comes first in `configs`, and the others, the best by the uncompiled model first."""
    space, machine = asked.space, asked.machine
    shipped, others = configs[0], configs[1:]
    if space.work is None:
        return list(configs)
    us = []
    for config in others:
        work = space.work(asked.problem, config, machine)
        us.append(predict_uncompiled(work, _hint(config, "occupancy"), _warps(config), machine).us)
    return [shipped, *_spread(others, us, [show(config) for config in others], space.fine)]


def _tried(asked: Problem, config: Any, result: Compiled) -> Tried:
    """Return what is known of a compiled candidate."""
    if result.resources is None:
        return Tried(show(config), why=result.why)
    from ..launch import spec_text

    machine = asked.machine
    return Tried(
        show(config),
        predicted_us=round(predicted_us(asked, config, result.resources), 3),
        why=result.resources.unfit(_hint(config, "occupancy"), machine),
        spec_text=spec_text(asked.library, result.token),
        resources=result.resources.to_json(),
    )


def predicted_us(asked: Problem, config: Any, resources: Resources) -> float:
    """Return the model's microseconds of a compiled candidate; 0 for a space that declares no work."""
    if asked.space.work is None:
        return 0.0
    work = asked.space.work(asked.problem, config, asked.machine)
    return predict_compiled(work, resources, _warps(config), asked.machine).us


def _hint(config: Any, name: str) -> int:
    return int(getattr(config, name, 0))


def _warps(config: Any) -> int:
    return _hint(config, "num_worker_warps") or 4


def _reasons(tried: Sequence[Tried]) -> str:
    return "; ".join(sorted({each.why for each in tried}))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
