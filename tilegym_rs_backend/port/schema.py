# SPDX-License-Identifier: MIT
"""The part of JSON Schema that the port's files need: types, required and unknown names, items, enums, patterns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_KNOWN = frozenset(
    [
        *("$schema", "title", "description", "type", "properties", "required", "additionalProperties"),
        *("items", "enum", "pattern", "minItems", "minimum"),
    ]
)


@lru_cache(maxsize=8)
def schema(name: str) -> dict[str, Any]:
    """Return a schema of this package: ``"analysis"`` or ``"summary"``."""
    found: dict[str, Any] = json.loads((Path(__file__).parent / f"{name}.schema.json").read_text(encoding="utf-8"))
    return found


def problems(value: Any, rules: dict[str, Any], where: str) -> Iterator[str]:
    """Say where a value breaks a schema, one line each.

    Raises:
        ValueError: the schema uses a word that is not understood here, so that nothing passes for want of a check.
    """
    if unknown := rules.keys() - _KNOWN:
        raise ValueError(f"schema of {where}: {sorted(unknown)} is not understood")
    kinds = rules.get("type")
    if kinds is not None:
        listed = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is(value, kind) for kind in listed):
            yield f"{where} is no {' or '.join(listed)}"
            return
    if "enum" in rules and value not in rules["enum"]:
        yield f"{where} is {value!r}, not one of {', '.join(map(str, rules['enum']))}"
    if isinstance(value, str) and "pattern" in rules and not re.search(rules["pattern"], value):
        yield f"{where} is {value!r}, which does not match {rules['pattern']}"
    if isinstance(value, (int, float)) and "minimum" in rules and value < rules["minimum"]:
        yield f"{where} is {value}, less than {rules['minimum']}"
    if isinstance(value, dict):
        yield from _members(value, rules, where)
    if isinstance(value, list):
        if len(value) < rules.get("minItems", 0):
            yield f"{where} has {len(value)} items, fewer than {rules['minItems']}"
        if "items" in rules:
            for index, item in enumerate(value):
                yield from problems(item, rules["items"], f"{where}[{index}]")


def _members(value: dict[str, Any], rules: dict[str, Any], where: str) -> Iterator[str]:
    named = rules.get("properties", {})
    for name in rules.get("required", ()):
        if name not in value:
            yield f"{where}: {name} is missing"
    others = rules.get("additionalProperties", True)
    for name, member in value.items():
        if name in named:
            yield from problems(member, named[name], f"{where}.{name}")
        elif others is False:
            yield f"{where}: {name} is unknown"
        elif isinstance(others, dict):
            yield from problems(member, others, f"{where}.{name}")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])
