# SPDX-License-Identifier: MIT
"""Write docs/constructs.md: every cuTile Python construct the translator knows, from its emitters themselves."""

from __future__ import annotations

import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "docs" / "constructs.md"
HEAD = """# What the translator knows

Generated from the emitters in `tilegym_rs_backend/port/translate/` by `python tools/constructs.py`; a test keeps it so.
Anything else is refused, with the Python file and line.

| cuTile Python | operation of its front end | cutile-rs |
|---|---|---|
"""


def page() -> str:
    """The page's text."""
    import tilegym_rs_backend.port.translate.translate  # noqa: F401 - registers the emitters
    from tilegym_rs_backend.port.translate.emitter import EMITTERS

    def cell(text: str) -> str:
        return text.replace("|", "\\|").replace("\n", " ")

    rows = sorted(EMITTERS.values(), key=lambda each: (each.python.lower(), each.operation))
    return HEAD + "".join(f"| {cell(e.python)} | {e.operation} | `{cell(e.rust)}` |\n" for e in rows)


def main() -> int:
    """Write, or with --check say whether the page is up to date."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.name}: {text.count(chr(10)) - HEAD.count(chr(10))} constructs")
    return 0


if __name__ == "__main__":
    sys.exit(main())
