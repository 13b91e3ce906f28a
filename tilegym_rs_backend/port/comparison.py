# SPDX-License-Identifier: MIT
"""One launch and its translation: Tile IR and machine code of both sides, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field
from pathlib import Path

from ..artifacts import assemble
from ..artifacts import bytecode as stored_bytecode
from ..errors import CompileError
from ..errors import LaunchError
from ..tile_ir import verdict as tile_ir_verdict
from ..tile_ir.cubin import read_cubin
from ..tile_ir.machine_code import ASSEMBLIES
from ..tile_ir.machine_code import PATIENCE
from ..tile_ir.machine_code import Sameness
from ..tile_ir.machine_code import compare_code
from ..tile_ir.machine_code import differing_instructions
from ..tile_ir.model import Function
from ..tile_ir.printer import show
from ..tile_ir.reader import read_module
from ..tile_ir.verdict import Verdict
from .assemblies import meeting
from .capture import CapturedLaunch
from .entries import Entry
from .ported import PortedKernels
from .stored import bytecode

IDENTICAL = "SASS-IDENTICAL"
DIFFERENT = "SASS-DIFFERENT"


@dataclass(frozen=True)
class Comparison:
    """What came out for one launch.

    Attributes:
        verdict: ``SASS-IDENTICAL``, ``SASS-DIFFERENT``, ``NOT-COMPILED`` (our side), ``NO-ORIGINAL`` (theirs),
            ``REFUSED`` (the translator) or ``NOT-BUILT`` (rustc).
        detail: sizes, or why.
        ir: the verdict on the Tile IR, empty where one side has none.
        entry, baked, passes: of the translation.
        cubins: ``"ours"`` and ``"theirs"``.
        bytecodes: the same of the Tile IR.
    """

    verdict: str
    detail: str
    ir: str = ""
    entry: str = ""
    baked: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    cubins: dict[str, bytes] = field(default_factory=dict, repr=False)
    bytecodes: dict[str, bytes] = field(default_factory=dict, repr=False)

    def dumps(self) -> dict[str, str]:
        """The Tile IR of each side as text."""
        return {side: show(read_module(code)) for side, code in self.bytecodes.items()}


def compare_launch(
    kernels: PortedKernels, launch: CapturedLaunch, entry: Entry | None = None, assemblies: int = ASSEMBLIES
) -> Comparison:
    """Compare a launch with its translation.

    Args:
        kernels: translations by key.
        launch: the original's.
        entry: of the crate; by default the one of the launch's key, made if need be.
        assemblies: how often each side is assembled before a difference is reported; ``PATIENCE`` times as often
            where the Tile IR says the same, unless the parity passes are still to be tried.
    """
    try:
        theirs = bytecode(launch)
        original = assemble(theirs, launch.arch, name=launch.name)
    except CompileError as error:
        return Comparison("NO-ORIGINAL", str(error))
    entry = entry or kernels.entry(launch)
    facts = {"entry": entry.name, "baked": entry.baked, "passes": entry.passes}
    try:
        ours = translated_bytecode(kernels, launch, entry)
        translated = assemble(ours, launch.arch, name=entry.name)
    except (CompileError, LaunchError) as error:
        return Comparison("NOT-COMPILED", str(error), **facts)  # type: ignore[arg-type]
    ir = ir_verdict(ours, theirs, launch.arch)
    patient = not entry.plain and ir.sameness is not tile_ir_verdict.Sameness.DIFFERS
    most = assemblies * (PATIENCE if patient else 1)
    pair = meeting(ours, theirs, (translated, original), launch.arch, most)
    one, other = (read_cubin(image).only() for image in pair)
    same = compare_code(one, other) is Sameness.IDENTICAL
    detail = f"{len(other.text)} B"
    if not same:
        differing, count = differing_instructions(one.text, other.text)
        detail = f"ours {len(one.text)} B, theirs {detail}, {differing} of {count} instructions differ; {ir}"
    return Comparison(
        IDENTICAL if same else DIFFERENT,
        detail,
        ir=str(ir),
        cubins={"ours": pair[0], "theirs": pair[1]},
        bytecodes={"ours": ours, "theirs": theirs},
        **facts,  # type: ignore[arg-type]
    )


def ir_verdict(ours: bytes, theirs: bytes, arch: str) -> Verdict:
    """Compare two bytecodes of one kernel each, which are launched with the same arguments."""
    return tile_ir_verdict.compare(kernel_in(ours), kernel_in(theirs), arch, ordered=True)


def translated_bytecode(kernels: PortedKernels, launch: CapturedLaunch, entry: Entry) -> bytes:
    """Return the Tile IR that an entry compiles to for a launch.

    Raises:
        CompileError, LaunchError: the front end, or the entry, refuses the launch.
    """
    recorded = kernels.recorded(launch, entry)
    return stored_bytecode(recorded.library, recorded.token, launch.arch)


def compile_both(kernels: PortedKernels, launch: CapturedLaunch, entry: Entry | None = None) -> None:
    """Put the machine code of both sides into the store, for `compare_launch` to find; raises what compilers raise."""
    assemble(bytecode(launch), launch.arch, name=launch.name)
    ours = translated_bytecode(kernels, launch, entry or kernels.entry(launch))
    assemble(ours, launch.arch, name=launch.name)


def kernel_of(file: Path) -> Function | None:
    """Read the kernel of a bytecode file, None where there is no file."""
    return kernel_in(file.read_bytes()) if file.is_file() else None


def kernel_in(code: bytes) -> Function:
    """Return the kernel of a bytecode."""
    return read_module(code).entry()
