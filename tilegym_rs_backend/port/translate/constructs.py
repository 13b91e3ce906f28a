# SPDX-License-Identifier: MIT
"""The table of constructs in docs/kernels.md, from the emitters themselves.

``python -m tilegym_rs_backend.port.translate.constructs`` prints it; a test compares it with the page.
"""

from __future__ import annotations

from tilegym_rs_backend.port.translate.registry import EMITTERS
from tilegym_rs_backend.port.translate.translate import translate

# Importing the translator is what registers the emitters.
assert callable(translate)


def table() -> str:
    """A Markdown table, one row per operation of cuTile Python's IR, sorted by its name."""
    rows = ["| cuTile Python | operation of its IR | cutile-rs |", "|---|---|---|"]
    for name in sorted(EMITTERS):
        found = EMITTERS[name]
        python, rust = (_cell(text) for text in (found.python, found.rust))
        rows.append(f"| {python} | `{found.operation}` | {rust} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(table(), end="")
