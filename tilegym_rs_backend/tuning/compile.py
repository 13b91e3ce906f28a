# SPDX-License-Identifier: MIT
"""Candidates to machine code: several at a time within the cgroup's limits, through the cubin store."""

from __future__ import annotations

import threading
from collections.abc import Callable
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import artifacts
from ..errors import TilegymRsError
from ..target import recorder_target
from ..toolchain.limits import build_jobs
from .resources import Resources
from .space import Launch

if TYPE_CHECKING:
    from ..library import Library

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Compiled:
    """What became of one candidate: its specialization and resources, or why there are none."""

    token: int = -1
    resources: Resources | None = None
    why: str = ""


def compile_launches(
    library: Library,
    launches: Sequence[Launch],
    arch: str,
    *,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> list[Compiled]:
    """Compile each launch's kernel into the cubin store; failures are results, in order.

    Args:
        library: the library the kernels are in.
        launches: what to compile; equal specializations are compiled once.
        arch: the architecture.
        jobs: how many tileiras at a time; default: processors and memory of the cgroup (1.5 GiB for each).
        progress: told (done, all) after each.
    """
    done = 0
    lock = threading.Lock()

    def one(launch: Launch) -> Compiled:
        nonlocal done
        try:
            return _compile(library, launch, arch)
        finally:
            with lock:
                done += 1
                if progress is not None:
                    progress(done, len(launches))

    with ThreadPoolExecutor(max_workers=jobs or build_jobs()) as pool:
        return list(pool.map(one, launches))


def _compile(library: Library, launch: Launch, arch: str) -> Compiled:
    try:
        token: int = launch.bind(library, recorder_target(arch)).token  # type: ignore[attr-defined]
        return Compiled(token, Resources.of(artifacts.cubin(library, token, arch)))
    except TilegymRsError as error:
        return Compiled(why=f"not compiled: {_first_line(error)}")


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0][:300]
