# SPDX-License-Identifier: MIT
"""The reference of ``summary.json`` in docs/reports.md, made from the schema.

    python -m pytest_cutile_rs.report.reference docs/reports.md

writes it between the two marks of that file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_cutile_rs.report.schema import SCHEMA
from pytest_cutile_rs.report.table import Table

BEGIN, END = "<!-- reference: begin -->", "<!-- reference: end -->"


def render(schema: Mapping[str, Any] = SCHEMA) -> str:
    """A markdown table: a row per property, those of nested objects and of list entries below their own."""
    rows = [(f"`{name}`", kind, text) for name, kind, text in _rows(schema)]
    return "\n".join(Table(("property", "type", "what it is"), rows).markdown()) + "\n"


def put(text: str) -> str:
    """A page with the reference between its marks made anew.

    Raises:
        ValueError: a mark is missing.
    """
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page needs the lines {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{render()}{END}{after}"


def _rows(schema: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str, str]]:
    for name, inner in schema.get("properties", {}).items():
        wanted = "" if name in schema.get("required", ()) else "; may be absent"
        yield f"{prefix}{name}", _kind(inner) + wanted, inner.get("description", "")
        yield from _rows(inner, f"{prefix}{name}.")
        yield from _rows(inner.get("items", {}), f"{prefix}{name}[].")


def _kind(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(kind)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(put(page.read_text(encoding="utf-8")), encoding="utf-8")
