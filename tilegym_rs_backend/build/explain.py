# SPDX-License-Identifier: MIT
"""Say in words why a library has to be built: the difference of two keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .key import Key


def difference(old: Mapping[str, Any], new: Key) -> list[str]:
    """Return one line per difference between a ``build.json`` and a key; empty when there is none."""
    lines: list[str] = []
    before: Mapping[str, str] = old.get("files", {})
    for name in sorted(set(before) | set(new.files)):
        if name not in before:
            lines.append(f"added: {name}")
        elif name not in new.files:
            lines.append(f"deleted: {name}")
        elif before[name] != new.files[name]:
            lines.append(f"changed: {name} ({before[name][:8]} -> {new.files[name][:8]})")
    components: Mapping[str, str] = old.get("components", {})
    for name in sorted(set(components) | set(new.components)):
        was, now = components.get(name, ""), new.components.get(name, "")
        if was != now:
            lines.append(f"{name}: {_one_line(was)} -> {_one_line(now)}")
    return lines


def _one_line(text: str) -> str:
    return repr(text.splitlines()[0]) if text else "nothing"


def why(old: Mapping[str, Any] | None, new: Key) -> str:
    """Return a short reason for the line printed when a build starts."""
    if old is None:
        return "no library of this crate was built here yet"
    lines = difference(old, new)
    if not lines:
        return "the library built before is gone"
    rest = f", and {len(lines) - 2} more" if len(lines) > 2 else ""
    return "; ".join(lines[:2]) + rest
