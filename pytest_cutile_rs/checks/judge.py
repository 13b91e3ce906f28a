# SPDX-License-Identifier: MIT
"""One side's outputs against the reference, and both sides' errors against each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import TORCH_DTYPES
from pytest_cutile_rs.case import Case
from pytest_cutile_rs.case import OpSuite
from pytest_cutile_rs.checks.arguments import bits
from pytest_cutile_rs.checks.comparator import Comparison
from pytest_cutile_rs.checks.comparator import compare

if TYPE_CHECKING:
    import torch

FACTOR = 1.5
"""Our error may be this many times cuTile Python's."""
FLOOR_ULP = 2.0
"""An error up to this is never called worse: one rounding is half a unit, and luck decides which side has it."""

APPROXIMATE_ULP = 2.0
"""What PTX allows an approximate operation, in units of f32's last place. On a CPU they are executed exactly, so the
peer's `exp approx` looks better than it is; ours spells the same steps out and has their rounding in its figure."""


@dataclass(frozen=True)
class Judged:
    """One side's outputs, each compared with its reference.

    Attributes:
        outputs: the tensors.
        comparisons: one per output.
        problems: what is wrong, one line each; several outputs are told apart by number.
    """

    outputs: tuple[torch.Tensor, ...]
    comparisons: tuple[Comparison, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def rows(self) -> tuple[str, ...]:
        """The first bad elements."""
        return tuple(row for one in self.comparisons for row in one.rows)

    def figures(self) -> dict[str, Any]:
        """JSON form: the largest errors over all outputs, the sums of the counts."""
        each = [one.figures() for one in self.comparisons]
        found: dict[str, Any] = {}
        for name in each[0] if each else ():
            values = [figures[name] for figures in each]
            if name in ("bad", "total"):
                found[name] = sum(values)
            else:
                found[name] = None if None in values else max(values)
        return found

    def summary(self) -> str:
        """The largest errors in words."""
        largest = [max((vars(one)[name] for one in self.comparisons), default=0.0) for name in ("max_abs", "max_ulp")]
        return f"max error {largest[0]:.3g} abs, {largest[1]:.3g} ulp"


def several(found: Any) -> tuple[torch.Tensor, ...]:
    """A reference as a tuple: one tensor, or one per output."""
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)


def judge(suite: OpSuite, case: Case, outputs: Sequence[torch.Tensor], reference: Sequence[torch.Tensor]) -> Judged:
    """Compares every output with its reference: shape, dtype, NaN and infinities, tolerance."""
    import torch

    if len(outputs) != len(reference):
        text = f"{len(outputs)} outputs to judge, the reference has {len(reference)}"
        return Judged(tuple(outputs), (), (text,))
    comparisons = tuple(
        compare(
            got.detach(),
            want,
            suite.tolerance_for(case, number),
            dtype=getattr(torch, TORCH_DTYPES[suite.dtype_of(case, number)]),
            empty_ok=0 in case.shape,
            no_information_ok=case.no_information_ok,
        )
        for number, (got, want) in enumerate(zip(outputs, reference, strict=True))
    )
    problems = [f"{_which(number, outputs)}{text}" for number, one in enumerate(comparisons) for text in one.problems]
    return Judged(tuple(outputs), comparisons, tuple(problems))


def ratio(ours: Judged, theirs: Judged) -> float | None:
    """Our largest error over theirs, in scaled ulp, of the output where it is worst; None where theirs is zero."""
    pairs = zip(ours.comparisons, theirs.comparisons, strict=False)
    found = [a.scaled / b.scaled for a, b in pairs if b.scaled > 0 and math.isfinite(a.scaled)]
    return max(found, default=None)


def worse(ours: Judged, theirs: Judged, approximate: int = 0) -> list[str]:
    """One line per output whose error is above ``FACTOR`` times theirs and above ``FLOOR_ULP``.

    Args:
        ours, theirs: both sides, against the same reference.
        approximate: kinds of approximate operations in the peer's kernels that were executed exactly; for each
            ``APPROXIMATE_ULP`` is added to its error.
    """
    import torch

    found = []
    for number, (a, b) in enumerate(zip(ours.comparisons, theirs.comparisons, strict=False)):
        dtype = ours.outputs[number].dtype
        if not dtype.is_floating_point:
            continue
        hidden = approximate * APPROXIMATE_ULP * torch.finfo(torch.float32).eps / torch.finfo(dtype).eps
        allowed = max(FACTOR * (b.scaled + hidden), FLOOR_ULP)
        if a.scaled > allowed:
            found.append(
                f"{_which(number, ours.outputs)}error of {a.scaled:.3g} scaled ulp, at most {allowed:.3g} is allowed: "
                f"{FACTOR:g} times cuTile Python's {b.scaled:.3g} (with {hidden:.3g} for its approximate operations), "
                f"or {FLOOR_ULP:g}"
            )
    return found


def strides(ours: Judged, theirs: Judged) -> list[str]:
    """One line per output that lies in memory otherwise than theirs."""
    found = []
    for number, (a, b) in enumerate(zip(ours.outputs, theirs.outputs, strict=False)):
        if tuple(a.shape) == tuple(b.shape) and a.stride() != b.stride():
            found.append(
                f"{_which(number, ours.outputs)}stride {tuple(a.stride())}, cuTile Python's is {tuple(b.stride())}"
            )
    return found


def unequal(ours: Judged, theirs: Judged) -> list[str]:
    """One line per output that is not equal to theirs bit for bit."""
    found = []
    if len(ours.outputs) != len(theirs.outputs):
        found.append(f"{len(ours.outputs)} outputs, cuTile Python has {len(theirs.outputs)}")
    for number, (a, b) in enumerate(zip(ours.outputs, theirs.outputs, strict=False)):
        where = _which(number, ours.outputs)
        if a.dtype != b.dtype or a.shape != b.shape:
            found.append(f"{where}{a.dtype} {tuple(a.shape)}, cuTile Python's is {b.dtype} {tuple(b.shape)}")
            continue
        count = int((bits(a) != bits(b)).sum())
        if count:
            found.append(f"{where}{count} of {a.numel()} elements differ from cuTile Python's, which may not be")
    return found


def _which(number: int, outputs: Sequence[Any]) -> str:
    return f"output {number}: " if len(outputs) > 1 else ""
