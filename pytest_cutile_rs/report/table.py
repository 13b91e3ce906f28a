# SPDX-License-Identifier: MIT
"""A table of texts, as aligned columns or as markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A head and rows of the same length."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def lines(self) -> list[str]:
        """Aligned columns; the head alone when there is no row."""
        table = [self.head, *self.rows]
        widths = [max(len(row[column]) for row in table) for column in range(len(self.head))]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]

    def markdown(self) -> list[str]:
        """A GitHub table."""
        return [_row(self.head), _row(["---"] * len(self.head)), *map(_row, self.rows)]


def escape(text: str) -> str:
    """One line that a markdown table's cell can hold, shown as it is: ``Tile<f32>`` is no HTML element."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape(cell) for cell in cells) + " |"
