# SPDX-License-Identifier: MIT
"""The host side of an op: its kernels' exports are there, and a call under backend `cutile_rs` is answered by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from ..errors import TilegymRsError
from ..target import Recorded
from ..target import record
from .arguments import hints_of
from .capture import CapturedLaunch
from .installed import backend_set
from .keys import key_of
from .launches import Chosen
from .launches import case_launches
from .ported import PortedKernels
from .redirect import redirect


class Wanted(NamedTuple):
    """One case of an op: the original's launches, or why there are none."""

    case: Any
    launches: list[CapturedLaunch]
    problem: str


def wanted(suite: Any, arch: str, found: Sequence[Chosen]) -> list[Wanted]:
    """Return the cases that the host side is checked on: those of launches with a tuner's first configuration.

    Args:
        suite: the op's parity cases.
        arch: ported for.
        found: its launches; those whose kernel was not ported are not among them.
    """
    cases = {each.case.id: each.case for each in found if each.tuning == 0}
    return [_wanted(suite, case, suite.arch_for(arch)) for case in cases.values()]


def _wanted(suite: Any, case: Any, arch: str) -> Wanted:
    try:
        return Wanted(case, case_launches(suite, case, arch), "")
    except Exception as error:
        return Wanted(case, [], f"{type(error).__name__}: {error}".splitlines()[0])


def check(suite: Any, arch: str, found: Sequence[Chosen], cases: Sequence[Wanted]) -> Iterator[tuple[bool, str]]:
    """Check an op's host side; yields (whether it is right, one line) for each export and each case.

    Args:
        suite, arch, found: as for ``wanted``.
        cases: what it returned.
    """
    kernels = redirect().kernels
    yield from _exports(kernels, found)
    for each in cases:
        yield _answered(kernels, suite, suite.arch_for(arch), each)


def _exports(kernels: PortedKernels, found: Sequence[Chosen]) -> Iterator[tuple[bool, str]]:
    library = kernels.crate.library()
    for name in sorted({kernels.entry(each.launch).name for each in found}):
        try:
            library.export(name)
        except (TilegymRsError, AttributeError) as error:
            yield False, f"export cutile_{name}: {error}"
        else:
            yield True, f"export cutile_{name} is there"


def _answered(kernels: PortedKernels, suite: Any, arch: str, of: Wanted) -> tuple[bool, str]:
    """Call the op under our backend, launching nothing, and compare what it asks for with the original's launches."""
    case, wanted = of.case, of.launches
    if of.problem:
        return False, f"[{case.id}] the original does not launch: {of.problem}"
    try:
        asked = _recorded(suite, case, arch)
    except Exception as error:
        return False, f"[{case.id}] does not answer: {type(error).__name__}: {error}".splitlines()[0]
    if len(asked) != len(wanted):
        names = ", ".join(each.kernel for each in asked) or "nothing"
        return False, f"[{case.id}] launches {names}, the original {', '.join(each.name for each in wanted)}"
    for ours, theirs in zip(asked, wanted, strict=True):
        entry = kernels.known(key_of(theirs))
        if entry is None or ours.kernel != entry.name:
            return False, f"[{case.id}] {theirs.name} is answered by {ours.kernel}, not by {entry and entry.name}"
        if tuple(ours.grid) != tuple(theirs.grid):
            return False, f"[{case.id}] {theirs.name}: grid ours {tuple(ours.grid)}, theirs {theirs.grid}"
        given = {name: value for name, value in ours.hints.items() if value > 0}
        hints = hints_of(theirs)
        if given != hints:
            return False, f"[{case.id}] {theirs.name}: hints ours {given}, theirs {hints}"
    names = ", ".join(each.kernel for each in asked)
    return True, f"[{case.id}] answered by {names}; grids and hints are the original's"


def _recorded(suite: Any, case: Any, arch: str) -> list[Recorded]:
    """Our side's launches of a case; uninitialised CPU memory has addresses of a real alignment."""
    from .. import registration

    registration.register()
    call = suite.inputs(dataclasses.replace(case, data="empty"), "cpu", 0)
    with registration.only("ported"), backend_set(registration.BACKEND), record(arch) as recorded:
        try:
            suite.call(call, backend=registration.BACKEND)
        except Exception:
            recorded.clear()
            suite.call(suite.inputs(case, "cpu", 0), backend=registration.BACKEND)
        return list(recorded)
