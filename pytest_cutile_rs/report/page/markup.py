# SPDX-License-Identifier: MIT
"""HTML by construction: whatever is not markup already is escaped."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# Elements without content; the slash is what ends those of SVG.
_VOID = frozenset({"input", "line", "path"})


class Markup(str):
    """Text that is HTML."""

    __slots__ = ()


Child = object
"""Markup, a text, a number, None (nothing), or an iterable of these."""


def join(*children: Child) -> Markup:
    """Everything in order, texts escaped."""
    return Markup("".join(map(_one, children)))


def tag(name: str, *children: Child, **attributes: object) -> Markup:
    """An element. ``class_`` is ``class``, underscores are hyphens; None and False leave an attribute out."""
    given = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        attribute = key.rstrip("_").replace("_", "-")
        given.append(f" {attribute}" if value is True else f' {attribute}="{html.escape(str(value), quote=True)}"')
    start = f"<{name}{''.join(given)}"
    return Markup(f"{start}/>" if name in _VOID else f"{start}>{join(*children)}</{name}>")


def table(head: Sequence[str], rows: Iterable[Sequence[Child]], class_: str = "") -> Markup:
    """A table that a narrow screen shows as one block per row: every cell carries its column's name."""
    cells = [[tag("td", cell, data_label=name) for name, cell in zip(head, row, strict=True)] for row in rows]
    titles = tag("thead", tag("tr", [tag("th", name, scope="col") for name in head]))
    return tag("table", titles, tag("tbody", [tag("tr", row) for row in cells]), class_=class_ or None)


def facts(pairs: Iterable[tuple[str, Child]]) -> Markup:
    """Names and values; empty values are left out, and so is an empty list."""
    found = [(name, value) for name, value in pairs if value not in (None, "", (), [], {})]
    return tag("dl", [join(tag("dt", name), tag("dd", value)) for name, value in found]) if found else Markup()


def flat(data: Mapping[str, Any], leave_out: Iterable[str] = (), prefix: str = "") -> list[tuple[str, str]]:
    """Nested figures as (dotted name, text); long lists are counted."""
    hidden = set(leave_out)
    found: list[tuple[str, str]] = []
    for key, value in data.items():
        if key in hidden:
            continue
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += flat(value, (), f"{name}.")
        else:
            found.append((name, text(value)))
    return [(name, shown) for name, shown in found if shown]


def text(value: Any, longest: int = 12) -> str:
    """A figure as people read it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, (list, tuple)):
        return f"{len(value)} values" if len(value) > longest else ", ".join(text(one) for one in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {text(one)}" for name, one in value.items())
    return str(value)


def number(value: float | None, form: str = ".4g", missing: str = "") -> str:
    """A float; ``missing`` where there is none."""
    return missing if value is None or not math.isfinite(value) else format(value, form)


def status(name: str) -> Markup:
    """An outcome as a badge; the word itself says it, the colour only helps."""
    return tag("span", name, class_=f"badge {name.lower()}")


def _one(child: Child) -> str:
    if isinstance(child, Markup):
        return str(child)
    if child is None:
        return ""
    if isinstance(child, str):
        return html.escape(child, quote=False)
    if isinstance(child, Iterable):
        return "".join(map(_one, child))
    return html.escape(str(child), quote=False)
