# SPDX-License-Identifier: MIT
"""The files that docs/own_crate.md shows."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "own_crate.md"


def files() -> dict[str, str]:
    """Name to text: each block stands after a line that begins with its file's name in backquotes."""
    found = re.findall(r"^`([\w./]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return dict(found)
