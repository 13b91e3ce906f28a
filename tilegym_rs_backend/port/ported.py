# SPDX-License-Identifier: MIT
"""Launches of cuTile Python kernels, answered by their translations to Rust.

What a launch needs is decided by its kernel's sources, its constants and the facts about its arguments; that key finds
an entry of the crate of translated kernels, in memory, then on disk, and at last by translating.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..cpu import of_translations
from ..errors import CompileError
from ..launch import bind
from ..target import Recorded
from ..target import Target
from ..target import recorder_target
from . import files
from .arguments import ADDRESSES
from .arguments import argument
from .arguments import hints_of
from .arguments import pointers_of
from .arguments import undescribed
from .arguments import with_tables
from .cached import CachedCrate
from .entries import Entry
from .entries import translated
from .keys import key_of

if TYPE_CHECKING:
    from .capture import CapturedLaunch

_MAP = "map"
"""Folder of the entries by key, beside the crate."""


class PortedKernels:
    """Translated kernels by key; safe to use from several threads and processes."""

    def __init__(self, crate: CachedCrate | None = None) -> None:
        self.crate = crate or CachedCrate()
        self._entries: dict[str, Entry] = {}
        self._lock = threading.RLock()

    def prepare(
        self,
        launches: Sequence[CapturedLaunch],
        beat: Callable[[str], None] = lambda text: None,
        *,
        plain: bool = False,
        again: bool = False,
    ) -> dict[str, Exception]:
        """Translate what is new among ``launches`` and build it in one go.

        Args:
            launches: of any kernels; those with equal keys share an entry.
            beat: told how far it is.
            plain: write for the plain front end, without the parity passes.
            again: translate what is known too; its new entry takes the old one's place.

        Returns what failed: the launch's key -> the refusal or the compiler's answer.
        """
        failed: dict[str, Exception] = {}
        with self._lock:
            made: dict[str, tuple[Entry, str]] = {}
            for number, launch in enumerate(launches, 1):
                beat(f"translated {number - 1} of {len(launches)} launches")
                key = key_of(launch)
                if key in made or key in failed or (not again and self.known(key) is not None):
                    continue
                try:
                    made[key] = translated(launch, plain=plain)
                except Exception as error:  # a refusal concerns its own kernel alone
                    failed[key] = error
            if made:
                self._add(made, failed)
        return failed

    def entry(self, launch: CapturedLaunch) -> Entry:
        """Return the entry for a launch, translated and built if need be.

        Raises:
            Refused: the translator has no Rust form for the kernel.
            CompileError: a front end, or rustc, refuses it.
            BuildError: the crate cannot be built.
        """
        key = key_of(launch)
        found = self.known(key)
        if found is None:
            failed = self.prepare([launch])
            if failed:
                raise next(iter(failed.values()))
            found = self._entries[key]
        return found

    def bound(
        self, launch: CapturedLaunch, target: Target, entry: Entry | None = None
    ) -> tuple[Callable[..., None], tuple[int, ...]]:
        """Specialize and plan a launch: a callable of addresses, and which of the launch's arguments they are of.

        Args:
            launch: the launch.
            target: where it goes.
            entry: of the crate; by default the one that the launch's key names.
        """
        entry = entry or self.entry(launch)
        arguments = [argument(launch.args[index], kind, axis) for kind, index, axis in entry.arguments]
        if "opt_level" in launch.hints:
            raise CompileError(
                f"kernel {launch.name} asks for opt_level {launch.hints['opt_level']}; here it is always 3"
            )
        pointers = tuple(index for kind, index, _ in entry.arguments if kind in ADDRESSES)
        options = {**entry.constants, **hints_of(launch)}
        return bind(self.crate.library(), target, entry.name, launch.grid, *arguments, **options), pointers

    def recorded(self, launch: CapturedLaunch, entry: Entry | None = None) -> Recorded:
        """Return what a launch's translation is, for the launch's architecture; arguments as for `bound`."""
        target = recorder_target(launch.arch)
        run, positions = self.bound(launch, target, entry)
        run(*(0 for _ in positions))
        return target.recorded[-1]

    def known(self, key: str) -> Entry | None:
        """Return the entry of a key if it was made before, by any process."""
        found = self._entries.get(key)
        if found is None:
            try:
                record = json.loads((self.crate.folder / _MAP / f"{key}.json").read_text(encoding="utf-8"))
                found = Entry(**{**record, "arguments": tuple(map(tuple, record["arguments"]))})
            except (OSError, ValueError, TypeError, KeyError):
                return None  # absent, or half written by a process that died: translating gives it again
            if not self.crate.has(found.name):
                return None
            self._entries[key] = found
        return found

    def _add(self, made: dict[str, tuple[Entry, str]], failed: dict[str, Exception]) -> None:
        new = {entry.name: text for entry, text in made.values() if not self.crate.has(entry.name)}
        refused = self.crate.add(new) if new else {}
        for key, (entry, _) in made.items():
            if entry.name in refused:
                failed[key] = CompileError(f"rustc refused {entry.name}, translated from Python: {refused[entry.name]}")
                continue
            self.enter(key, entry)

    def enter(self, key: str, entry: Entry) -> None:
        """Let an entry that the crate has answer a key's launches, in every process."""
        self._entries[key] = entry
        files.write(self.crate.folder / _MAP, f"{key}.json", json.dumps(asdict(entry)))


def carry_out(kernels: PortedKernels, launch: CapturedLaunch, target: Target, entry: Entry | None = None) -> None:
    """Execute or record a launch's translation, on a target that is no GPU; ``entry`` as for ``bound``."""
    run, positions = kernels.bound(launch, target, entry)
    args = with_tables(launch.args)
    with of_translations(undescribed(launch.args)):
        run(*pointers_of(args, positions))
