# SPDX-License-Identifier: MIT
"""Waivers: cases that may be slower than the threshold, for a reason and until a day. Pure; entries of a TOML array."""

from __future__ import annotations

import datetime
import fnmatch
import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_cutile_rs.result import WAIVED
from pytest_cutile_rs.result import CheckResult

ANY = "any"
_KEYS = ("op", "case", "threshold", "reason", "expires")


@dataclass(frozen=True)
class Waiver:
    """One entry.

    Attributes:
        op: the op's name.
        case: a glob over its case ids.
        threshold: the ratio that these cases still have to reach; None (written ``"any"``) for none.
        reason: why.
        expires: the last day on which it counts, UTC.
    """

    op: str
    case: str
    threshold: float | None
    reason: str
    expires: datetime.date

    def __str__(self) -> str:
        return f"{self.op}[{self.case}]"

    @property
    def limit(self) -> str:
        """The threshold in words."""
        return ANY if self.threshold is None else f"{self.threshold:g}"

    def covers(self, op: str, case: str) -> bool:
        """Whether it is about this case."""
        return op == self.op and fnmatch.fnmatchcase(case, self.case)

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {
            "op": self.op,
            "case": self.case,
            "threshold": ANY if self.threshold is None else self.threshold,
            "reason": self.reason,
            "expires": self.expires.isoformat(),
        }


def read_waivers(entries: object, today: datetime.date) -> tuple[Waiver, ...]:
    """Check ``[[tool.cutile_rs.waivers]]``.

    Raises:
        ValueError: an entry is malformed or has expired; the message names it.
    """
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("[[tool.cutile_rs.waivers]] is an array of tables")
    return tuple(_read(number, entry, today) for number, entry in enumerate(entries, 1))


def _read(number: int, entry: Mapping[str, Any], today: datetime.date) -> Waiver:
    name = f"waiver {number} ({entry.get('op', '?')}[{entry.get('case', '?')}])"
    missing = [key for key in _KEYS if key not in entry]
    unknown = sorted(set(entry) - set(_KEYS))
    if missing or unknown:
        wrong = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(unknown)}"] * bool(unknown)
        raise ValueError(f"{name} {' and '.join(wrong)}; an entry has {', '.join(_KEYS)}")
    for key in ("op", "case", "reason"):
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise ValueError(f"{name}: {key} = {entry[key]!r} is no text")
    threshold = entry["threshold"]
    number_given = isinstance(threshold, (int, float)) and not isinstance(threshold, bool)
    if threshold != ANY and not (number_given and math.isfinite(threshold) and threshold > 0):
        raise ValueError(f'{name}: threshold = {threshold!r}; write the ratio still asked for, or "{ANY}"')
    expires = _day(name, entry["expires"])
    if expires < today:
        raise ValueError(f"{name} expired on {expires}: {entry['reason']}. Fix the case, or renew the waiver.")
    limit = None if threshold == ANY else float(threshold)
    return Waiver(entry["op"], entry["case"], limit, entry["reason"], expires)


def _day(name: str, value: object) -> datetime.date:
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value
    try:
        return datetime.datetime.strptime(str(value), "%Y-%m-%d").date()
    except ValueError:
        raise ValueError(f"{name}: expires = {value!r} is no day; write YYYY-MM-DD") from None


def waiver_for(waivers: Iterable[Waiver], op: str, case: str) -> Waiver | None:
    """The first waiver about a case."""
    return next((waiver for waiver in waivers if waiver.covers(op, case)), None)


def used(waivers: Sequence[Waiver], results: Iterable[CheckResult]) -> list[dict[str, Any]]:
    """Every waiver with the ids of the cases it saved, and in words why it saved none."""
    perf = [result for result in results if result.check == "perf"]
    rows = []
    for waiver in waivers:
        about = [result for result in perf if waiver_for(waivers, result.op, result.case) is waiver]
        saved = [result.nodeid for result in about if result.status == WAIVED]
        if saved:
            note = ""
        elif not about:
            note = "no timed case of this run matches"
        else:
            note = "not needed: " + ", ".join(sorted({result.status for result in about}))
        rows.append(waiver.to_dict() | {"used": saved, "note": note})
    return rows
