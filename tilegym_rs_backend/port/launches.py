# SPDX-License-Identifier: MIT
"""Which launches of an op are ported and compared: of each kernel a few that differ in what decides their text."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from .capture import CapturedLaunch
from .capture import Tuning
from .capture import capture
from .installed import backend_set
from .keys import key_of

_IDLE_TRIES = 8
"""So many cases without a launch that is new end the search."""
TUNINGS = (0, 1 << 30)
"""The first and the last configuration of every tuner: they differ the most."""


class Chosen(NamedTuple):
    """One launch, and how it is captured again: the case, the tuner's answer, the place among the case's launches."""

    case: Any
    tuning: int | str
    position: int
    launch: CapturedLaunch


def case_launches(suite: Any, case: Any, arch: str, tuning: Tuning = 0) -> list[CapturedLaunch]:
    """Capture the launches of one parity case; on ``meta`` tensors, or on the CPU where host code reads a tensor.

    Args:
        suite, case: of the op.
        arch: to capture for.
        tuning: see `capture`.

    Raises:
        Exception: what the op raises on both.
    """
    empty = dataclasses.replace(case, data="empty")

    def captured(case: Any, device: str) -> list[CapturedLaunch]:
        call = suite.inputs(case, device, 0)
        return capture(lambda: suite.call(call, backend="cutile"), arch, tuning=tuning, device=device)

    with backend_set("cutile"):
        try:
            return captured(empty, "meta")
        except Exception:
            return captured(case, "cpu")


def chosen(
    suite: Any, arch: str, per_kernel: int = 2, failed: Callable[[Any, Exception], None] | None = None
) -> list[Chosen]:
    """Return launches of an op: up to ``per_kernel`` of each kernel, with different keys.

    Args:
        suite: the op's parity cases.
        arch: to port for.
        per_kernel: how many launches of a kernel are enough.
        failed: told of each case that could not be captured, with the error.
    """
    kept: dict[str, dict[str, Chosen]] = {}
    arch, idle = suite.arch_for(arch), 0

    def keep(each: Chosen) -> bool:
        mine = kept.setdefault(each.launch.name, {})
        key = key_of(each.launch)
        if len(mine) >= per_kernel or key in mine:
            return False
        mine[key] = each
        return True

    for case, tuning in ((case, tuning) for tuning in TUNINGS for case in representatives(suite)):
        if idle >= _IDLE_TRIES:
            break
        idle += 1
        try:
            launches = case_launches(suite, case, arch, tuning)
        except Exception as error:  # an op may refuse one dtype or shape and take the others
            if failed is not None:
                failed(case, error)
            continue
        if any([keep(Chosen(case, tuning, *numbered)) for numbered in enumerate(launches)]):
            idle = 0
    launched = set(kept)
    for each in _candidates(suite, arch):
        if each.launch.name not in launched:
            keep(each)
    return [each for mine in kept.values() for each in mine.values()]


def _candidates(suite: Any, arch: str) -> Iterator[Chosen]:
    """Every configuration a tuner would try: it may choose among kernels, and here none of them is timed."""
    for case in representatives(suite)[:_IDLE_TRIES]:
        with contextlib.suppress(Exception):
            for position, launch in enumerate(case_launches(suite, case, arch, "all")):
                if launch.candidate:
                    yield Chosen(case, "all", position, launch)


def representatives(suite: Any) -> list[Any]:
    """Return the smallest case of each dtype and parameters, small before large.

    Cases that are judged by numbers alone count only where an op has no others: its host code branches on data.
    """
    launching = [case for case in suite.cases if not case.raises and 0 not in case.shape]
    cases = [case for case in launching if case.structural] or launching
    cases.sort(key=suite.bytes_moved)
    first: dict[tuple[Any, ...], Any] = {}
    for case in cases:
        first.setdefault((case.params, case.dtype), case)
    return list(first.values())
