# SPDX-License-Identifier: MIT
"""One launch and its translation: Tile IR and machine code of both sides, and what they say."""

from __future__ import annotations

from dataclasses import dataclass
from dataclasses import field

from ..artifacts import assemble
from ..artifacts import emit
from ..errors import CompileError
from ..errors import LaunchError
from ..target import recorder_target
from ..tile_ir import verdict as tile_ir_verdict
from ..tile_ir.cubin import read_cubin
from ..tile_ir.machine_code import Sameness
from ..tile_ir.machine_code import compare_code
from ..tile_ir.machine_code import differing_instructions
from ..tile_ir.model import Function
from ..tile_ir.printer import show
from ..tile_ir.reader import read_module
from ..tile_ir.side_by_side import side_by_side
from .assemblies import ASSEMBLIES
from .assemblies import meeting
from .capture import CapturedLaunch
from .ported import PortedKernels
from .signature import bytecode

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
        difference: both kernels side by side, where the machine code differs.
    """

    verdict: str
    detail: str
    ir: str = ""
    entry: str = ""
    baked: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    cubins: dict[str, bytes] = field(default_factory=dict, repr=False)
    bytecodes: dict[str, bytes] = field(default_factory=dict, repr=False)
    difference: str = field(default="", repr=False)

    def dumps(self) -> dict[str, str]:
        """The Tile IR of each side as text."""
        return {side: show(read_module(code)) for side, code in self.bytecodes.items()}


def compare_launch(kernels: PortedKernels, launch: CapturedLaunch, assemblies: int = ASSEMBLIES) -> Comparison:
    """Compare a launch with its translation, which is made if need be."""
    try:
        theirs = bytecode(launch)
        original = assemble(theirs, launch.arch, name=launch.name)
    except CompileError as error:
        return Comparison("NO-ORIGINAL", str(error))
    entry = kernels.entry(launch)
    facts = {"entry": entry.name, "baked": entry.baked, "passes": entry.passes}
    try:
        target = recorder_target(launch.arch)
        run, positions = kernels.bound(launch, target)
        run(*(0 for _ in positions))
        recorded = target.recorded[-1]
        ours = emit(recorded.library, recorded.token, launch.arch)
        translated = assemble(ours, launch.arch, name=entry.name)
    except (CompileError, LaunchError) as error:
        return Comparison("NOT-COMPILED", str(error), **facts)  # type: ignore[arg-type]
    pair = meeting(ours, theirs, (translated, original), launch.arch, assemblies)
    one, other = (read_cubin(image).only() for image in pair)
    mine, peer = _only(ours), _only(theirs)
    ir = str(tile_ir_verdict.compare(mine, peer, launch.arch))
    same = compare_code(one, other) is Sameness.IDENTICAL
    detail = f"{len(other.text)} B"
    if not same:
        differing, count = differing_instructions(one.text, other.text)
        detail = f"ours {len(one.text)} B, theirs {detail}, {differing} of {count} instructions differ; {ir}"
    return Comparison(
        IDENTICAL if same else DIFFERENT,
        detail,
        ir=ir,
        cubins={"ours": pair[0], "theirs": pair[1]},
        bytecodes={"ours": ours, "theirs": theirs},
        difference="" if same else side_by_side(mine, peer, only_differences=True),
        **facts,  # type: ignore[arg-type]
    )


def _only(code: bytes) -> Function:
    return next(function for function in read_module(code).functions if function.is_entry)
