# SPDX-License-Identifier: MIT
"""The table of constructs in docs/kernels.md, from the emitters themselves.

``python -m tilegym_rs_backend.port.translate.constructs`` prints it; a test compares it with the page. Which operations
of Tile IR an operation becomes is read off cuTile Python's own writer of bytecode.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from typing import Any

from tilegym_rs_backend.port.translate.registry import EMITTERS
from tilegym_rs_backend.port.translate.translate import translate
from tilegym_rs_backend.tile_ir.table import content

# Importing the translator is what registers the emitters.
assert callable(translate)


def table() -> str:
    """A Markdown table, one row per operation of cuTile Python's IR, sorted by its name."""
    rows = ["| cuTile Python | operation of its IR | cutile-rs | Tile IR |", "|---|---|---|---|"]
    for name in sorted(EMITTERS):
        found = EMITTERS[name]
        python, rust = (_cell(text) for text in (found.python, found.rust))
        rows.append(f"| {python} | `{found.operation}` | {rust} | {', '.join(tile_ir(name))} |")
    return "\n".join(rows) + "\n"


def tile_ir(operation: str) -> list[str]:
    """The operations of Tile IR that an operation class of cuTile Python's IR is written as, sorted."""
    import cuda.tile._ir as package

    for module in pkgutil.iter_modules(package.__path__):
        found = getattr(importlib.import_module(f"{package.__name__}.{module.name}"), operation, None)
        if found is not None:
            return sorted(_written(found.generate_bytecode))
    raise LookupError(f"cuda-tile has no operation {operation}")


def _written(function: Any, seen: frozenset[str] = frozenset()) -> set[str]:
    """Operations that a function writes. What an operation's own writer writes is all of it; helpers that only serve
    one that writes nothing itself are followed."""
    import cuda.tile._ir2bytecode as helpers

    source = inspect.getsource(function)
    names = {entry["name"].replace("_", ""): entry["name"] for entry in content()["operations"].values()}
    names["fpowf"] = "pow"
    found = {names[name.lower()] for name in re.findall(r"encode_(\w+)Op\b", source)}
    if found and not seen:
        return found
    # Of a helper's own helpers the private ones belong to it; the others write zeros, reshapes and the like.
    called = {name for name in re.findall(r"\b(\w+)\(", source) if not seen or name.startswith("_")}
    for name in sorted(called - seen):
        helper = getattr(helpers, name, None) or getattr(helpers.BytecodeContext, name, None)
        if inspect.isfunction(helper):
            found |= _written(helper, seen | {name})
    return found


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(table(), end="")
