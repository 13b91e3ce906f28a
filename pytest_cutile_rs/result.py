# SPDX-License-Identifier: MIT
"""The outcome of one check of one case, in a form that JSON and pytest-xdist can carry."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any

PASS = "PASS"
FAIL = "FAIL"
NOT_RUN = "NOT-RUN"
AMBIGUOUS = "AMBIGUOUS"
NO_DATA = "NO-DATA"
UNFAIR = "UNFAIR"
NOISY = "NOISY"
WAIVED = "WAIVED"

PEER_ONLY = "peer_only"
"""Key in a result's data: cuTile Python alone was judged, the op has no Rust kernel."""
NO_KERNEL = "no Rust kernel yet"
"""The reason of every check that such an op cannot have."""

# Worst first: the order of every table and of an op's overall verdict.
SEVERITY = (FAIL, UNFAIR, NO_DATA, NOISY, AMBIGUOUS, WAIVED, NOT_RUN, PASS)
FAILING = frozenset({FAIL, UNFAIR, NO_DATA, NOISY})
CHECKED = frozenset({PASS, FAIL, UNFAIR, AMBIGUOUS, NOISY, WAIVED})


@dataclass(frozen=True)
class CheckResult:
    """What one check found out about one case.

    Attributes:
        check: ``"numerics"``, ``"ir"``, ``"sass"`` or ``"perf"``.
        op: TileGym's name of the op.
        case: the case's id.
        status: one of ``SEVERITY``.
        reason: one line: why, or for a PASS what was shown.
        data: figures for the report; JSON types only.
        details: the long message of a failure.
        dtype: of the case, for grouping.
        size: whether a CPU can execute the case (``"cpu"``) or not (``"gpu"``); empty where nobody asked.
    """

    check: str
    op: str
    case: str
    status: str
    reason: str
    data: dict[str, Any] = field(default_factory=dict)
    details: str = ""
    dtype: str = ""
    size: str = ""

    @property
    def peer_only(self) -> bool:
        """Whether it says nothing about a kernel of ours, cuTile Python's alone was judged."""
        return bool(self.data.get(PEER_ONLY))

    @property
    def nodeid(self) -> str:
        """The pytest id that runs this check again."""
        return f"cutile_rs::{self.check}::{self.op}[{self.case}]"

    @property
    def verdict(self) -> str:
        """The check's last line."""
        return verdict_line(self.status, self.reason)

    def to_dict(self) -> dict[str, Any]:
        """JSON form; ``verdict`` comes last."""
        return {
            "check": self.check,
            "op": self.op,
            "case": self.case,
            "dtype": self.dtype,
            "size": self.size,
            "status": self.status,
            "reason": self.reason,
            "data": self.data,
            "details": self.details,
            "verdict": self.verdict,
        }

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> CheckResult:
        """The inverse of ``to_dict``."""
        names = ("check", "op", "case", "status", "reason", "data", "details", "dtype", "size")
        return cls(**{name: raw[name] for name in names if name in raw})


def fails(status: str, ambiguous: str = "xfail") -> bool:
    """Whether a status fails the run; ``ambiguous`` is the run's choice for AMBIGUOUS."""
    return status in FAILING or (status == AMBIGUOUS and ambiguous == "fail")


def verdict_line(status: str, reason: str) -> str:
    """``VERDICT: PASS|FAIL|NOT-RUN <reason>``; finer perf verdicts are FAILs with their name in front of the reason."""
    word = status if status in (PASS, FAIL, NOT_RUN) else FAIL if status in FAILING else NOT_RUN
    text = reason if word == status else f"{status} {reason}"
    return f"VERDICT: {word} {' '.join(text.split())}".rstrip()


def worst(statuses: Iterable[str]) -> str:
    """The worst of some statuses; ``NOT-RUN`` of none, and of a group that ran in part."""
    found = set(statuses)
    return next((status for status in SEVERITY if status in found), NOT_RUN)
