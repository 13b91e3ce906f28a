# SPDX-License-Identifier: MIT
"""Compare the machine code of both sides' kernels, assembled by the same tileiras.

For a ported kernel identity is the gate; for a native one the comparison describes (code size, registers, stack frame,
shared memory of both). Tileiras is not deterministic for every kernel: before a possible identity is denied, sets of
up to four assemblies of each side are compared, twelve of a ported kernel whose Tile IR says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from typing import Protocol

from pytest_cutile_rs.case import Case
from pytest_cutile_rs.checks.ir import read_kernel
from pytest_cutile_rs.checks.pairs import LaunchLike
from pytest_cutile_rs.checks.pairs import Pair
from pytest_cutile_rs.checks.pairs import count_difference
from pytest_cutile_rs.checks.pairs import pair
from pytest_cutile_rs.result import FAIL
from pytest_cutile_rs.result import NOT_RUN
from pytest_cutile_rs.result import PASS
from pytest_cutile_rs.result import CheckResult
from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.errors import ToolchainError
from tilegym_rs_backend.tile_ir import verdict
from tilegym_rs_backend.tile_ir.cubin import CubinError
from tilegym_rs_backend.tile_ir.cubin import CubinKernel
from tilegym_rs_backend.tile_ir.cubin import read_cubin
from tilegym_rs_backend.tile_ir.machine_code import ASSEMBLIES
from tilegym_rs_backend.tile_ir.machine_code import PATIENCE
from tilegym_rs_backend.tile_ir.machine_code import Sameness
from tilegym_rs_backend.tile_ir.machine_code import compare_code
from tilegym_rs_backend.tile_ir.machine_code import differing_instructions

VARIANTS = ("native", "ported")


class Assembler(Protocol):
    """Turns bytecode into a cubin; ``fresh`` asks for another run of tileiras instead of a stored result."""

    def __call__(self, bytecode: bytes, arch: str, *, fresh: bool = False) -> bytes:
        """Assemble; raises CompileError or ToolchainError."""


class _Side:
    """The assemblies of one kernel, made on demand."""

    def __init__(self, launch: LaunchLike, arch: str, assemble: Assembler) -> None:
        self._launch, self._arch, self._assemble = launch, arch, assemble
        self.kernels: list[CubinKernel] = []

    def kernel(self, index: int) -> CubinKernel:
        while len(self.kernels) <= index:
            image = self._assemble(self._launch.bytecode, self._arch, fresh=bool(self.kernels))
            self.kernels.append(read_cubin(image).only())
        return self.kernels[index]


def check(
    case: Case,
    ours: Sequence[LaunchLike],
    theirs: Sequence[LaunchLike],
    arch: str,
    *,
    assemble: Assembler | None = None,
    variant: str = "native",
    repeat: bool | None = None,
) -> CheckResult:
    """Compare launch by launch.

    Args:
        case: the case both sides ran.
        ours: our launches, in order; ``theirs`` are the peer's.
        arch: what to assemble for.
        assemble: defaults to our store and tileiras.
        variant: ``"ported"``: anything but identical code, grid and hints is a FAIL; ``"native"``: a PASS that names
            the differences.
        repeat: whether to assemble again where code differs; by default for ported kernels, and where both codes have
            the same length.

    Returns:
        FAIL also where our own kernel cannot be assembled; NOT-RUN where the peer's cannot, or without tileiras.
    """

    def result(status: str, reason: str, data: dict[str, Any] | None = None, details: str = "") -> CheckResult:
        return CheckResult(
            "sass",
            case.op,
            case.id,
            status,
            reason,
            {"arch": arch, "variant": variant, **(data or {})},
            details,
            case.dtype,
        )

    if variant not in VARIANTS:
        raise ValueError(f"variant is one of {VARIANTS}, not {variant!r}")
    ported = variant == "ported"
    if not ours and not theirs:
        return result(NOT_RUN, "neither side launches a kernel")
    if not ours or not theirs:
        status = FAIL if not ours or ported else NOT_RUN
        return result(status, f"only one side launches a kernel: {count_difference(ours, theirs)}")
    assembler = assemble or _assemble
    rows: list[dict[str, Any]] = []
    sentences = [text for text in [count_difference(ours, theirs)] if text]
    launches_equal = not sentences
    for both in pair(ours, theirs):
        sides = [_Side(launch, arch, assembler) for launch in (both.ours, both.theirs)]
        for side, whose in zip(sides, ("our", "cuTile Python's"), strict=True):
            name = both.ours.name if whose == "our" else both.theirs.name
            try:
                side.kernel(0)
            except (CompileError, CubinError) as error:
                status = FAIL if whose == "our" else NOT_RUN
                return result(status, f"{whose} kernel {name} cannot be assembled for {arch}", details=str(error))
            except ToolchainError as error:
                return result(NOT_RUN, str(error))
        sameness, count = _compare(*sides, repeat=ported if repeat is None else repeat, decide=repeat is None)
        if ported and repeat is None and sameness is Sameness.DIFFERENT and _by_chance(both, sides, arch):
            sameness, count = _compare(*sides, repeat=True, decide=False, most=PATIENCE * ASSEMBLIES)
        launch_differences = both.launch_differences()
        launches_equal = launches_equal and not launch_differences
        rows.append(_row(both, sides, sameness, count, launch_differences))
        if sameness is not Sameness.IDENTICAL:
            sentences.append(_sentence(both, sides, sameness))
        if ported:
            sentences.extend(f"{both.ours.name}: {text}" for text in launch_differences)
    data = {"launches": rows, "launch_counts": [len(ours), len(theirs)], "identical": all(r["identical"] for r in rows)}
    if not sentences:
        size = sum(row["ours"]["text_bytes"] for row in rows)
        what = "grid and hints equal" if launches_equal else "launches differ in grid or hints"
        return result(PASS, f"SASS-IDENTICAL {', '.join(r['theirs']['kernel'] for r in rows)} ({size} B; {what})", data)
    return result(FAIL if ported else PASS, "; ".join(sentences), data)


def _assemble(bytecode: bytes, arch: str, *, fresh: bool = False) -> bytes:
    from tilegym_rs_backend.artifacts import assemble

    return assemble(bytecode, arch, fresh=fresh)


def _by_chance(both: Pair, sides: Sequence[_Side], arch: str) -> bool:
    """Whether both sides' code is as long and their Tile IR equivalent; not where it cannot be read."""
    if len(sides[0].kernel(0).text) != len(sides[1].kernel(0).text):
        return False
    try:
        mine, peer = (read_kernel(side.bytecode) for side in (both.ours, both.theirs))
    except TilegymRsError:
        return False
    return verdict.compare(mine, peer, arch, ordered=True).sameness is not verdict.Sameness.DIFFERS


def _compare(ours: _Side, theirs: _Side, *, repeat: bool, decide: bool, most: int = ASSEMBLIES) -> tuple[Sameness, int]:
    """The closest sameness of any two assemblies, and how many of each side were looked at."""
    best = compare_code(ours.kernel(0), theirs.kernel(0))
    if decide and not repeat:
        repeat = len(ours.kernel(0).text) == len(theirs.kernel(0).text)
    if best is not Sameness.DIFFERENT or not repeat:
        return best, 1
    for count in range(2, most + 1):
        ours.kernel(count - 1)
        theirs.kernel(count - 1)
        for mine in ours.kernels:
            for peer in theirs.kernels:
                sameness = compare_code(mine, peer)
                if sameness is Sameness.IDENTICAL:
                    return sameness, count
                best = sameness if sameness is Sameness.PARAMETERS else best
    return best, most


def _row(both: Pair, sides: Sequence[_Side], sameness: Sameness, count: int, differences: list[str]) -> dict[str, Any]:
    described = both.to_dict()
    for name, side in zip(("ours", "theirs"), sides, strict=True):
        described[name].update(side.kernel(0).resources())
    differing, total = differing_instructions(sides[0].kernel(0).text, sides[1].kernel(0).text)
    return {
        **described,
        "verdict": sameness.value,
        "identical": sameness is Sameness.IDENTICAL,
        "assemblies": count,
        "distinct_codes": [len({kernel.text for kernel in side.kernels}) for side in sides],
        "instructions": total,
        "differing_instructions": differing if sameness is not Sameness.IDENTICAL else 0,
        "launch_differences": differences,
    }


def _sentence(both: Pair, sides: Sequence[_Side], sameness: Sameness) -> str:
    mine, peer = (side.kernel(0) for side in sides)
    names = f"{both.ours.name} / {both.theirs.name}"
    if sameness is Sameness.PARAMETERS:
        return f"{names}: identical up to parameter-bank offsets ({len(mine.text)} B)"
    parts = [f"code {len(mine.text)}/{len(peer.text)} B", f"registers {mine.registers}/{peer.registers}"]
    parts += [f"frame {mine.frame_bytes}/{peer.frame_bytes} B", f"shared {mine.shared_bytes}/{peer.shared_bytes} B"]
    if len(mine.text) == len(peer.text):
        parts.insert(1, "{} of {} instructions".format(*differing_instructions(mine.text, peer.text)))
    return f"{names} differ: {', '.join(parts)} (ours/theirs)"
