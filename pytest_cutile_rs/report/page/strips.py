# SPDX-License-Identifier: MIT
"""Drawings that stretch with the page: SVG of 100 units' width, strokes that keep their size, no text inside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_cutile_rs.report.page.markup import Markup
from pytest_cutile_rs.report.page.markup import tag

# In the order in which they get a place: a tick too close to an earlier one is left out.
_TICKS = (1, 2, 5, 10, 0.5, 0.1, 1.5, 0.2, 3, 20, 50, 0.8, 1.2, 0.9, 1.1, 0.7, 1.3, 0.95, 1.05, 0.98, 1.02, 0.99, 1.01)
_APART = 9.0


@dataclass(frozen=True)
class Scale:
    """Ratios on a logarithmic axis, from 0 to 100."""

    low: float
    high: float

    @classmethod
    def around(cls, values: Iterable[float], margin: float = 0.04) -> Scale:
        """The smallest axis that shows all values and 1."""
        found = [1.0, *(value for value in values if value > 0 and math.isfinite(value))]
        return cls(min(found) * (1 - margin), max(found) * (1 + margin))

    def at(self, value: float) -> float:
        """Where a value lies, kept inside."""
        share = math.log(max(value, 1e-9) / self.low) / math.log(self.high / self.low)
        return round(100 * min(1.0, max(0.0, share)), 2)

    def ticks(self) -> list[float]:
        """Round values on the axis, 1 among them, whose texts do not touch."""
        kept: list[float] = []
        for tick in _TICKS:
            near = any(abs(self.at(tick) - self.at(other)) < _APART for other in kept)
            if self.low <= tick <= self.high and not near:
                kept.append(float(tick))
        return sorted(kept)


def interval(scale: Scale, low: float, value: float, high: float, marks: Mapping[str, float], kind: str) -> Markup:
    """A value with its interval; ``marks`` are vertical lines by class."""
    middle = 8
    return _svg(
        16,
        [
            *(_vertical(scale.at(at), 16, name) for name, at in marks.items()),
            _line(scale.at(low), middle, scale.at(high), middle, f"ci {kind}"),
            _dots([(scale.at(value), middle)], f"dot {kind}"),
        ],
        f"{value:.3f}, interval {low:.3f} to {high:.3f}",
    )


def samples(series: Mapping[str, Sequence[float]], marks: Mapping[str, float], label: str) -> Markup:
    """Values in the order of measuring, one class per series, on one axis that starts where the values do."""
    values = [value for points in series.values() for value in points]
    low, high = min([*values, *marks.values()]), max([*values, *marks.values()])
    room = (high - low or abs(high) or 1.0) * 0.08
    low, high = low - room, high + room
    height = 60

    def y(value: float) -> float:
        return round(height * (1 - (value - low) / (high - low)), 2)

    drawn = [_line(0, y(at), 100, y(at), name) for name, at in marks.items()]
    for name, points in series.items():
        step = 96 / max(1, len(points) - 1)
        drawn.append(_dots([(round(2 + step * index, 2), y(one)) for index, one in enumerate(points)], f"dot {name}"))
    return _svg(height, drawn, label, "samples")


def development(scale: Scale, points: Sequence[float | None], label: str) -> Markup:
    """A ratio over runs; a run without it leaves a gap."""
    height = 32
    step = 92 / max(1, len(points) - 1)

    def place(index: int, value: float) -> tuple[float, float]:
        return round(4 + step * index, 2), round(height * (1 - scale.at(value) / 100), 2)

    known = [place(index, value) for index, value in enumerate(points) if value]
    path = "".join(f"{'L' if number else 'M'}{x} {y}" for number, (x, y) in enumerate(known))
    one = round(height * (1 - scale.at(1.0) / 100), 2)
    line = tag("path", d=path or "M0 0", class_="run")
    return _svg(height, [_line(0, one, 100, one, "one"), line, _dots(known, "dot")], label)


def _svg(height: int, drawn: Iterable[Markup], label: str, class_: str = "strip") -> Markup:
    return tag(
        "svg",
        list(drawn),
        viewBox=f"0 0 100 {height}",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
        class_=class_,
    )


def _vertical(x: float, height: int, class_: str) -> Markup:
    return _line(x, 0, x, height, class_)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def _dots(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """One path for all: a round cap on a stroke of next to no length is a dot."""
    return tag("path", d="".join(f"M{x} {y}h.01" for x, y in points) or "M0 0", class_=class_)
