# SPDX-License-Identifier: MIT
"""Compares a result with its reference and says where and how it differs. Never lets missing information pass."""

from __future__ import annotations

import math
from dataclasses import dataclass
from dataclasses import field
from typing import TYPE_CHECKING
from typing import Any

from pytest_cutile_rs.case import Tolerance

if TYPE_CHECKING:
    import torch

_SHOWN = 5


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
    import torch

    if tuple(got.shape) != tuple(want.shape):
        return Comparison((f"shape {tuple(got.shape)}, want {tuple(want.shape)}",))
    if dtype is not None and got.dtype != dtype:
        return Comparison((f"dtype {got.dtype}, want {dtype}",))
    if got.numel() == 0:
        return Comparison(() if empty_ok else ("nothing was compared: the result is empty",))
    if not got.is_floating_point():
        return _integers(got, want, tolerance)
    rounded = want.to(got.dtype).to(want.dtype)
    got_wide = got.to(want.dtype)
    if bool(torch.isnan(rounded).all()) and not no_information_ok:
        return Comparison(("the reference is NaN everywhere: this case has no information",), total=got.numel())

    problems: list[str] = []
    wrong_nan = torch.isnan(got_wide) != torch.isnan(rounded)
    edge = _near_overflow(want, got.dtype, tolerance)
    inf = (torch.isinf(got_wide) | torch.isinf(rounded)) & ~torch.isnan(got_wide) & ~torch.isnan(rounded)
    wrong_inf = inf & (got_wide != rounded) & ~edge
    finite = torch.isfinite(got_wide) & torch.isfinite(rounded)
    zero = torch.zeros((), dtype=want.dtype, device=want.device)
    error = torch.where(finite, (got_wide - want).abs(), zero)
    size = torch.where(finite, want, zero).abs()
    wrong = error > tolerance.atol + tolerance.rtol * size
    for mask, text in (
        (wrong_nan, "NaN where the reference has none, or none where it has one"),
        (wrong_inf, "an infinity is missing, has the wrong sign, or should not be there"),
        (wrong, f"error above {tolerance.atol:.3g} + {tolerance.rtol:.3g} * |want| ({tolerance.why})"),
    ):
        count = int(mask.sum())
        if count:
            problems.append(f"{count} of {got.numel()} elements ({100 * count / got.numel():.3g} %): {text}")
    bad = wrong_nan | wrong_inf | wrong
    magnitude = torch.where(finite & (want != 0), want.abs(), zero + math.inf)
    return Comparison(
        tuple(problems),
        max_abs=float(error.max()),
        max_rel=float((error / magnitude).max()),
        max_ulp=float((error / _ulp(size, got.dtype)).max()),
        scaled=float((error / _unit(size, got.dtype, tolerance)).max()),
        bad=int(bad.sum()),
        total=got.numel(),
        rows=tuple(_rows(got, want, bad)) if problems else (),
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
        rows=tuple(_rows(got, want, bad)) if count else (),
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


def _rows(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor) -> list[str]:
    import torch

    lines = ["first bad elements (index: got, want, absolute and relative error, ulp):"]
    # A huge result may be wrong everywhere; only its first bad elements are looked up.
    flat = torch.nonzero(bad.reshape(-1), as_tuple=False)[:_SHOWN, 0].tolist()
    for position in flat:
        index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(position), got.shape))
        a, b = float(got[index]), float(want[index])
        error = abs(a - b)
        exact = got.is_floating_point() and math.isfinite(b)
        ulp = float(_ulp(want[index], got.dtype)) if exact else math.nan
        relative = error / abs(b) if b else math.inf
        lines.append(f"  {list(index)}: {a:.9g}, {b:.9g}, {error:.3g}, {relative:.3g}, {error / ulp:.3g}")
    return lines


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None
