# SPDX-License-Identifier: MIT
"""The Rust file around a translated body."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence

from tilegym_rs_backend.port.translate.emitter import Emitter
from tilegym_rs_backend.port.translate.parameters import Holds
from tilegym_rs_backend.port.translate.parameters import Parameters
from tilegym_rs_backend.port.translate.statements import render
from tilegym_rs_backend.port.translate.statements import tidy

_BEYOND_CORE = "    use cutile::tileir::*;\n"


def source(name: str, origin: str, emitter: Emitter, parameters: Parameters, passes: Sequence[str]) -> str:
    """The text of the file."""
    body = render(tidy(emitter.code.statements), 2)
    generics = [f"const {generic.name}: i32" for generic in emitter.generics.listed()]
    if emitter.generic_type:
        generics.insert(0, "E: ElementType")
    listed = f"<{', '.join(generics)}>" if generics else ""
    declared = "".join(f"        {p.name}: {p.type},\n" for p in parameters.declared)
    helpers = "".join(f"{text}\n" for text in emitter.helpers.values())
    return (
        f"// Translated from {origin}; generated, not edited.\n\n"
        "#[cutile::module]\n"
        f"pub mod {name} {{\n"
        "    use cutile::core::*;\n"
        f"{_BEYOND_CORE if 'gather_scatter_view' in body else ''}\n"
        f"{helpers}"
        "    #[tile::entry(unchecked_accesses = true)]\n"
        f"{_attributes(parameters, passes)}"
        f"    pub unsafe fn {name}{listed}(\n{declared}    ) {{\n{body}    }}\n"
        "}\n"
    )


def _attributes(parameters: Parameters, passes: Sequence[str]) -> str:
    lines = []
    if parameters.flattened:
        listed = ", ".join(f"{name} = {rank}" for name, rank in parameters.flattened.items())
        lines.append(f"    #[tile::flattened({listed})]\n")
    facts = _facts(parameters.holds)
    if facts:
        lines.append(f"    #[tile::holds({', '.join(facts)})]\n")
    if passes:
        lines.append(f"    #[tile::passes({', '.join(passes)})]\n")
    return "".join(lines)


def _facts(holds: Mapping[str, Holds]) -> list[str]:
    found = []
    for name, fact in holds.items():
        if fact.nothing:
            continue
        parts = []
        for word, values in (("extents", fact.extents), ("strides", fact.strides)):
            if any(value is not None for value in values):
                listed = ", ".join("-1" if value is None else str(value) for value in values)
                parts.append(f"{word} = [{listed}]")
        if fact.pointer_16:
            parts.append("pointer_16")
        for word, axes in (("extents_16", fact.extents_16), ("strides_16", fact.strides_16)):
            if axes:
                parts.append(f"{word} = [{', '.join(map(str, axes))}]")
        found.append(f"{name}({', '.join(parts)})")
    return found
