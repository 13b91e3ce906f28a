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
        bad: elements out of tolerance or with a wrong NaN or inf; ``total`` of how many.
    """

    problems: tuple[str, ...]
    max_abs: float = 0.0
    max_rel: float = 0.0
    max_ulp: float = 0.0
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

    Integers must be equal. NaN and infinities must sit in the same places, with the same sign; the reference's are
    those of its value rounded to ``got``'s dtype. An element whose reference lies within the tolerance of the dtype's
    largest number may be either finite or infinite.

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
    rounded = want.to(got.dtype)
    if not got.dtype.is_floating_point:
        return _exact(got, rounded)
    if bool(torch.isnan(rounded).all()) and not no_information_ok:
        return Comparison(("the reference is NaN everywhere: this case has no information",), total=got.numel())

    got_wide, want_wide = got.to(want.dtype), rounded.to(want.dtype)
    problems: list[str] = []
    wrong_nan = torch.isnan(got) != torch.isnan(rounded)
    edge = _near_overflow(want, got.dtype, tolerance)
    inf_got, inf_want = torch.isinf(got), torch.isinf(rounded)
    wrong_inf = ((inf_got | inf_want) & (got_wide != want_wide) & ~torch.isnan(got) & ~torch.isnan(rounded)) & ~edge
    finite = torch.isfinite(got) & torch.isfinite(rounded)
    zero = torch.zeros((), dtype=want.dtype, device=want.device)
    error = torch.where(finite, (got_wide - want).abs(), zero)
    wrong = error > tolerance.atol + tolerance.rtol * torch.where(finite, want.abs(), zero)
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
        max_ulp=float((error / _ulp(torch.where(finite, want, zero), got.dtype)).max()),
        bad=int(bad.sum()),
        total=got.numel(),
        rows=tuple(_rows(got, want, bad)) if problems else (),
    )


def _exact(got: torch.Tensor, want: torch.Tensor) -> Comparison:
    """Integers: every element is the same."""
    import torch

    bad = got != want
    count = int(bad.sum())
    if not count:
        return Comparison((), total=got.numel())
    rows = ["first bad elements (index: got, want):"]
    places = torch.nonzero(bad)[:_SHOWN].tolist()
    rows += [f"  {place}: {int(got[tuple(place)])}, {int(want[tuple(place)])}" for place in places]
    return Comparison(
        (f"{count} of {got.numel()} integers ({100 * count / got.numel():.3g} %) differ",),
        max_abs=float((got.to(torch.float64) - want.to(torch.float64)).abs().max()),
        bad=count,
        total=got.numel(),
        rows=tuple(rows),
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
    exponent = torch.floor(torch.log2(values.abs().clamp(min=limits.tiny)))
    return torch.pow(torch.full_like(values, 2.0), exponent) * limits.eps


def _rows(got: torch.Tensor, want: torch.Tensor, bad: torch.Tensor) -> list[str]:
    import torch

    lines = ["first bad elements (index: got, want, absolute and relative error, ulp):"]
    # A huge result may be wrong everywhere; only its first bad elements are looked up.
    flat = torch.nonzero(bad.reshape(-1), as_tuple=False)[:_SHOWN, 0].tolist()
    for position in flat:
        index = tuple(int(axis) for axis in torch.unravel_index(torch.tensor(position), got.shape))
        a, b = float(got[index]), float(want[index])
        error = abs(a - b)
        ulp = float(_ulp(want[index], got.dtype)) if math.isfinite(b) else math.nan
        relative = error / abs(b) if b else math.inf
        lines.append(f"  {list(index)}: {a:.9g}, {b:.9g}, {error:.3g}, {relative:.3g}, {error / ulp:.3g}")
    return lines


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None
