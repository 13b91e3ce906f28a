# SPDX-License-Identifier: MIT
"""What became of TileGym's own tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from typing import Any


@dataclass
class TilegymResults:
    """Counts of TileGym's own tests; the failed ones by id, the skipped ones by reason."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def ran(self) -> int:
        """Tests that gave an answer."""
        return self.passed + len(self.failed)

    def add(self, report: Any) -> None:
        """Counts one of pytest's test reports."""
        if report.failed:
            if report.nodeid not in self.failed:
                self.failed.append(report.nodeid)
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.skipped[reason.removeprefix("Skipped: ")] += 1
        elif report.when == "call":
            self.passed += 1

    def joined(self, other: TilegymResults) -> TilegymResults:
        """Both together."""
        return TilegymResults(
            self.passed + other.passed, sorted({*self.failed, *other.failed}), self.skipped + other.skipped
        )

    def to_dict(self) -> dict[str, Any]:
        """JSON form."""
        return {"passed": self.passed, "failed": sorted(self.failed), "skipped": dict(sorted(self.skipped.items()))}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> TilegymResults:
        """The inverse of ``to_dict``."""
        return cls(int(raw["passed"]), list(raw["failed"]), Counter(raw["skipped"]))
