# SPDX-License-Identifier: MIT
"""Compares a result with its reference and says where and how it differs. Never lets missing information pass."""

from __future__ import annotations

import math
from collections.abc import Iterator
from collections.abc import Sequence
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Tolerance

if TYPE_CHECKING:
    import torch

_SHOWN = 5
_PART = 1 << 27
"""Elements compared at once: a dozen tensors in fp64 of this many are 13 GB."""


@dataclass(frozen=True)
class Comparison:
    """What `compare` found.

    Attributes:
        problems: one line per thing that is wrong; empty when the result is right.
        max_abs, max_rel: largest errors over the elements that are finite on both sides.
        max_ulp: largest error in units of the result dtype's last place.
        scaled: the same, with no unit smaller than that of the number at which the tolerance's two parts are equal
            (atol / rtol): below it the error of a right result does not shrink with the value, after a cancellation
            for one. This is what two implementations are compared by.
        bad: elements out of tolerance or with a wrong NaN or inf; ``total`` of how many.
    """

    problems: tuple[str, ...]
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
    scaled: float = 0.0
    bad: int = 0
    total: int = 0
    rows: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def figures(self) -> dict[str, Any]:
        """JSON form; numbers that JSON lacks become None."""
        return {
            "max_abs": _json_number(self.max_abs),
            "max_rel": _json_number(self.max_rel),
            "max_ulp": _json_number(self.max_ulp),
            "scaled_ulp": _json_number(self.scaled),
            "bad": self.bad,
            "total": self.total,
        }

    def message(self) -> str:
        """The long form: problems, then the first bad elements."""
        return "\n".join([*self.problems, *self.rows])


def compare(
    got: torch.Tensor,
    want: torch.Tensor,
    tolerance: Tolerance,
    *,
    dtype: torch.dtype | None = None,
    empty_ok: bool = False,
    no_information_ok: bool = False,
) -> Comparison:
    """Compares ``got`` with a reference of higher precision on the same device.

    NaN and infinities must sit in the same places, with the same sign; the reference's are those of its value rounded
    to ``got``'s dtype. An element whose reference lies within the tolerance of the dtype's largest number may be
    either finite or infinite. Integers and booleans have no NaN and no last place: their tolerance is absolute.

    Args:
        got: the result.
        want: the reference.
        tolerance: of finite elements.
        dtype: what ``got`` has to have; not checked when None.
        empty_ok: the case is about an empty result.
        no_information_ok: the case is about an all-NaN reference.
    """
    if tuple(got.shape) != tuple(want.shape):
        return Comparison((f"shape {tuple(got.shape)}, want {tuple(want.shape)}",))
    if dtype is not None and got.dtype != dtype:
        return Comparison((f"dtype {got.dtype}, want {dtype}",))
    if got.numel() == 0:
        return Comparison(() if empty_ok else ("nothing was compared: the result is empty",))
    if not got.is_floating_point():
        return _integers(got, want, tolerance)
    found = [_floats(*part, tolerance) for part in _parts(got, want)]
    if all(one.no_information for one in found) and not no_information_ok:
        return Comparison(("the reference is NaN everywhere: this case has no information",), total=got.numel())
    counts = {
        "NaN where the reference has none, or none where it has one": sum(one.wrong_nan for one in found),
        "an infinity is missing, has the wrong sign, or should not be there": sum(one.wrong_inf for one in found),
        f"error above {tolerance.atol:.3g} + {tolerance.rtol:.3g} * |want| ({tolerance.why})": sum(
            one.wrong for one in found
        ),
    }
    problems = [
        f"{count} of {got.numel()} elements ({100 * count / got.numel():.3g} %): {text}"
        for text, count in counts.items()
        if count
    ]
    return Comparison(
        tuple(problems),
        max_abs=max(one.max_abs for one in found),
        max_rel=max(one.max_rel for one in found),
        max_ulp=max(one.max_ulp for one in found),
        scaled=max(one.scaled for one in found),
        bad=sum(one.bad for one in found),
        total=got.numel(),
        rows=_table([row for one in found for row in one.rows]) if problems else (),
    )


def _parts(got: torch.Tensor, want: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor, tuple[int, ...]]]:
    """The tensors in pieces of at most `_PART` elements where an axis is long enough, and where each begins."""
    pending = [(got, want, (0,) * got.ndim)]
    while pending:
        a, b, begin = pending.pop()
        longest = max(range(a.ndim), key=lambda axis: int(a.shape[axis]), default=0)
        if a.numel() <= _PART or a.shape[longest] == 1:
            yield a, b, begin
            continue
        half = a.shape[longest] // 2
        for start, length in ((half, a.shape[longest] - half), (0, half)):
            where = (*begin[:longest], begin[longest] + start, *begin[longest + 1 :])
            pending.append((a.narrow(longest, start, length), b.narrow(longest, start, length), where))


@dataclass(frozen=True)
class _Part:
    """What one piece holds; counts, maxima, and the first bad elements."""

    no_information: bool
    wrong_nan: int
    wrong_inf: int
    wrong: int
    bad: int
    max_abs: float
    max_rel: float
    max_ulp: float
    scaled: float
    rows: list[str]


def _floats(got: torch.Tensor, want: torch.Tensor, begin: tuple[int, ...], tolerance: Tolerance) -> _Part:
    import torch

    rounded = want.to(got.dtype).to(want.dtype)
    got_wide = got.to(want.dtype)
    wrong_nan = torch.isnan(got_wide) != torch.isnan(rounded)
    edge = _near_overflow(want, got.dtype, tolerance)
    inf = (torch.isinf(got_wide) | torch.isinf(rounded)) & ~torch.isnan(got_wide) & ~torch.isnan(rounded)
    wrong_inf = inf & (got_wide != rounded) & ~edge
    finite = torch.isfinite(got_wide) & torch.isfinite(rounded)
    zero = torch.zeros((), dtype=want.dtype, device=want.device)
    error = torch.where(finite, (got_wide - want).abs(), zero)
    size = torch.where(finite, want, zero).abs()
    wrong = error > tolerance.atol + tolerance.rtol * size
    bad = wrong_nan | wrong_inf | wrong
    magnitude = torch.where(finite & (want != 0), want.abs(), zero + math.inf)
    count = int(bad.sum())
    return _Part(
        bool(torch.isnan(rounded).all()),
        int(wrong_nan.sum()),
        int(wrong_inf.sum()),
        int(wrong.sum()),
        count,
        float(error.max()),
        float((error / magnitude).max()),
        float((error / _ulp(size, got.dtype)).max()),
        float((error / _unit(size, got.dtype, tolerance)).max()),
        _rows(got, want, bad, begin) if count else [],
    )


def _integers(got: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> Comparison:
    """Elements as float64, which holds every integer below 2^53; larger ones have to be equal or differ by more."""
    import torch

    error = (got.to(torch.float64) - want.to(torch.float64)).abs()
    if not want.is_floating_point():
        error = torch.where(got.to(want.dtype) == want, 0.0, error.clamp(min=1.0))
    bad = ~(error <= tolerance.atol)
    count = int(bad.sum())
    text = f"{count} of {got.numel()} elements ({100 * count / got.numel():.3g} %): differ by more than "
    return Comparison(
        (f"{text}{tolerance.atol:.3g} ({tolerance.why})",) if count else (),
        max_abs=float(error.max()),
        bad=count,
        total=got.numel(),
        rows=_table(_rows(got, want, bad, (0,) * got.ndim)) if count else (),
    )


def _near_overflow(want: torch.Tensor, dtype: torch.dtype, tolerance: Tolerance) -> torch.Tensor:
    import torch

    largest = torch.finfo(dtype).max
    slack = largest * max(tolerance.rtol, torch.finfo(dtype).eps) + tolerance.atol
    return (want.abs() >= largest - slack) & (want.abs() <= largest + slack)


def _ulp(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Distance from each value to the next one of ``dtype``."""
    import torch

    limits = torch.finfo(dtype)
    _, exponent = torch.frexp(values.abs().clamp(min=limits.tiny))
    return torch.ldexp(torch.full_like(values, limits.eps), exponent - 1)


def _unit(values: torch.Tensor, dtype: torch.dtype, tolerance: Tolerance) -> torch.Tensor:
    """The last place of each value, or of the number where the tolerance turns absolute."""
    if tolerance.rtol > 0:
        return _ulp(values.clamp(min=tolerance.atol / tolerance.rtol), dtype)
    return _ulp(values, dtype).clamp(min=tolerance.atol)


def _table(rows: Sequence[str]) -> tuple[str, ...]:
    return ("first bad elements (index: got, want, absolute and relative error, ulp):", *rows[:_SHOWN])


def _rows(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor, begin: Sequence[int]) -> list[str]:
    """The first bad elements of a piece that begins at an index of the whole."""
    import torch

    lines = []
    # A huge result may be wrong everywhere; only its first bad elements are looked up.
    flat = torch.nonzero(bad.reshape(-1), as_tuple=False)[:_SHOWN, 0].tolist()
    for position in flat:
        index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(position), got.shape))
        a, b = float(got[index]), float(want[index])
        error = abs(a - b)
        exact = got.is_floating_point() and math.isfinite(b)
        ulp = float(_ulp(want[index], got.dtype)) if exact else math.nan
        relative = error / abs(b) if b else math.inf
        where = [start + axis for start, axis in zip(begin, index, strict=True)]
        lines.append(f"  {where}: {a:.9g}, {b:.9g}, {error:.3g}, {relative:.3g}, {error / ulp:.3g}")
    return lines


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None
