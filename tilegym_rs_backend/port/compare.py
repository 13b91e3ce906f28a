# SPDX-License-Identifier: MIT
"""Translate captured launches, build them as one crate, and compare each kernel's machine code with the original's.

tileiras is not deterministic for every kernel: before a difference is reported, sets of assemblies are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tilegym_rs_backend.artifacts import assemble
from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.errors import BuildError
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.library import Library
from tilegym_rs_backend.library import opened
from tilegym_rs_backend.port.assemblies import ASSEMBLIES
from tilegym_rs_backend.port.assemblies import meeting
from tilegym_rs_backend.port.capture import CapturedLaunch
from tilegym_rs_backend.port.crate import write_crate
from tilegym_rs_backend.port.signature import bytecode as original_bytecode
from tilegym_rs_backend.port.specialize import bytecode as ported_bytecode
from tilegym_rs_backend.port.translate import Refused
from tilegym_rs_backend.port.translate import Translation
from tilegym_rs_backend.port.translate import translate
from tilegym_rs_backend.tile_ir.cubin import read_cubin
from tilegym_rs_backend.tile_ir.machine_code import Sameness
from tilegym_rs_backend.tile_ir.machine_code import compare_code
from tilegym_rs_backend.tile_ir.machine_code import differing_instructions

IDENTICAL = "SASS-IDENTICAL"
DIFFERENT = "SASS-DIFFERENT"
REFUSED = "REFUSED"
NOT_BUILT = "NOT-BUILT"
NOT_COMPILED = "NOT-COMPILED"
NO_ORIGINAL = "NO-ORIGINAL"
_MOST_BUILDS = 8


@dataclass(frozen=True)
class Comparison:
    """The outcome for one launch.

    Attributes:
        launch: the original's.
        verdict: ``SASS-IDENTICAL``; ``SASS-DIFFERENT``; ``REFUSED`` (the translator), ``NOT-BUILT`` (rustc),
            ``NOT-COMPILED`` (the front end or tileiras) or ``NO-ORIGINAL`` (cuTile Python or its assembly failed).
        detail: sizes, or why.
        translation: None where there is none.
        code_bytes: of the original.
    """

    launch: CapturedLaunch
    verdict: str
    detail: str
    translation: Translation | None = None
    code_bytes: int = 0


def compare(
    launches: Sequence[CapturedLaunch],
    folder: Path | None = None,
    *,
    assemblies: int = ASSEMBLIES,
    report: Callable[[Comparison], None] | None = None,
) -> list[Comparison]:
    """Compare each launch's translated kernel with the original, in order.

    Args:
        launches: captured launches; launches with equal texts share an entry.
        folder: of the generated crate; the default lies in the cache.
        assemblies: how often each side is assembled before a difference is reported.
        report: called with each outcome as it is known.
    """
    outcomes: dict[int, Comparison] = {}

    def done(index: int, outcome: Comparison) -> None:
        outcomes[index] = outcome
        if report is not None:
            report(outcome)

    translations: dict[int, Translation] = {}
    entries = Entries()
    for index, launch in enumerate(launches):
        try:
            translations[index] = entries.translate(launch)
        except (Refused, CompileError) as error:
            verdict = REFUSED if isinstance(error, Refused) else NO_ORIGINAL
            done(index, Comparison(launch, verdict, str(error)))
    library, failed = build(entries.sources, folder)
    for index, translation in translations.items():
        launch = launches[index]
        if library is None or translation.module in failed:
            done(index, Comparison(launch, NOT_BUILT, failed.get(translation.module, ""), translation))
        else:
            done(index, one(library, translation, launch, assemblies))
    return [outcomes[index] for index in range(len(launches))]


class Entries:
    """Entries of one crate: kernels of equal names and different texts get numbers."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._by_text: dict[str, str] = {}

    def translate(self, launch: CapturedLaunch) -> Translation:
        """Translate a launch, into the entry that has its text if there is one."""
        first = translate(launch)
        name = self._by_text.get(first.source)
        if name is None:
            name, number = first.entry, 2
            while name in self.sources:
                name, number = f"{first.entry}_{number}", number + 1
            self._by_text[first.source] = name
        made = first if name == first.entry else translate(launch, name)
        self.sources[name] = made.source
        return made


def build(sources: dict[str, str], folder: Path | None = None) -> tuple[Library | None, dict[str, str]]:
    """Build a crate of kernels, leaving out files that rustc or build.rs refuses; returns those with the reason."""
    failed: dict[str, str] = {}
    for _ in range(_MOST_BUILDS):
        wanted = {name: text for name, text in sources.items() if name not in failed}
        if not wanted:
            return None, failed
        root = write_crate(wanted, folder)
        try:
            return opened(ensure_library(root, reason="translated kernels"), root), failed
        except BuildError as error:
            found = _blamed(error, wanted)
            if not found:
                raise
            failed.update(found)
    return None, failed


def _blamed(error: BuildError, sources: dict[str, str]) -> dict[str, str]:
    text = str(error)
    if error.log_path is not None and error.log_path.is_file():
        text = error.log_path.read_text(errors="replace")
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=error)", text):
        if not block.startswith("error") and "error:" not in block:
            continue
        for name in re.findall(r"src/ops/(\w+)\.rs", block):
            if name in sources:
                found.setdefault(name, block.strip()[:2000])
    return found


def one(library: Library, translation: Translation, launch: CapturedLaunch, assemblies: int = ASSEMBLIES) -> Comparison:
    """Compare one launch whose translation is in the library."""
    try:
        theirs = original_bytecode(launch)
        original = assemble(theirs, launch.arch, name=launch.name)
    except CompileError as error:
        return Comparison(launch, NO_ORIGINAL, str(error), translation)
    size = len(read_cubin(original).only().text)
    try:
        ours = ported_bytecode(library, translation, launch)
        translated = assemble(ours, launch.arch, name=translation.entry)
    except CompileError as error:
        return Comparison(launch, NOT_COMPILED, str(error), translation, size)
    pair = meeting(ours, theirs, (translated, original), launch.arch, assemblies)
    mine, peer = (read_cubin(image).only() for image in pair)
    if compare_code(mine, peer) is Sameness.IDENTICAL:
        return Comparison(launch, IDENTICAL, f"{size} B", translation, size)
    differing, count = differing_instructions(mine.text, peer.text)
    detail = f"ours {len(mine.text)} B, theirs {size} B, {differing} of {count} instructions differ"
    return Comparison(launch, DIFFERENT, detail, translation, size)
