# SPDX-License-Identifier: MIT
"""The table of operations (``opcodes.json``, see ``tools/gen_tile_ir_table.py``), made ready for one format version."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field
from pathlib import Path
from typing import Any

_FILE = Path(__file__).with_name("opcodes.json")


@dataclass(frozen=True, slots=True)
class Field:
    """One field of an operation, in the order of the file.

    Attributes:
        kind: ``operand``, ``optional_operand``, ``sized_operands``, ``rest_operands``, ``operand_count``, ``result``,
            ``results``, ``flags``, ``regions``, or an attribute's coding (``enum``, ``int``, ``str``, ...).
        name: the operand's or attribute's name.
        enum: value -> name, for an enum.
        bits: (name, bit, says that an optional field is present), for flags.
        condition: name of the flag without which the field is absent, ``""``: always there.
        count: how many results or regions, -1 where the file says.
    """

    kind: str
    name: str
    enum: Mapping[int, str] = field(default_factory=dict)
    bits: tuple[tuple[str, int, bool], ...] = ()
    condition: str = ""
    count: int = -1


@dataclass(frozen=True, slots=True)
class Layout:
    """How an operation lies in a file of one version; ``defaults`` are attributes that this version cannot hold."""

    name: str
    fields: tuple[Field, ...]
    defaults: Mapping[str, str | bool]


@functools.cache
def content() -> dict[str, Any]:
    """The committed table as it is."""
    loaded: dict[str, Any] = json.loads(_FILE.read_text())
    return loaded


@functools.cache
def layouts(version: tuple[int, int]) -> Mapping[int, Layout]:
    """Opcode number -> layout, of the operations that format ``version`` has."""
    enums = {name: {int(n): text for n, text in values.items()} for name, values in content()["enums"].items()}
    found: dict[int, Layout] = {}
    for number, entry in content()["operations"].items():
        if not _there(entry, version):
            continue
        fields: list[Field] = []
        defaults: dict[str, str | bool] = {}
        for each in entry["fields"]:
            if _there(each, version):
                fields.append(_field(each, enums))
            elif each["kind"] == "flags":
                defaults.update({bit["name"]: False for bit in each["bits"] if not bit["present"]})
            elif "default" in each:
                defaults[each["name"]] = each["default"]
        found[int(number)] = Layout(entry["name"], tuple(fields), defaults)
    return found


def since(name: str) -> str:
    """The first version that has operation ``name``."""
    return next(str(e.get("since", "13.1")) for e in content()["operations"].values() if e["name"] == name)


def names() -> tuple[str, ...]:
    """All operations' names, in the order of their numbers."""
    return tuple(entry["name"] for entry in content()["operations"].values())


def _there(entry: Mapping[str, Any], version: tuple[int, int]) -> bool:
    first = str(entry.get("since", "0.0"))
    if first == "preview":
        return False
    major, minor = first.split(".")
    return version >= (int(major), int(minor))


def _field(entry: Mapping[str, Any], enums: Mapping[str, Mapping[int, str]]) -> Field:
    count = int(entry.get("count", len(entry["names"]) if "names" in entry else -1))
    return Field(
        kind=entry["kind"],
        name=entry["name"],
        enum=enums.get(entry.get("enum", ""), {}),
        bits=tuple((bit["name"], bit["bit"], bit["present"]) for bit in entry.get("bits", ())),
        condition=entry.get("if", ""),
        count=count,
    )
