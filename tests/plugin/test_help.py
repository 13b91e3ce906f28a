# SPDX-License-Identifier: MIT
"""The options as `pytest --help` shows them, word for word: help.txt beside this file.

python tests/plugin/test_help.py > tests/plugin/help.txt     after a change that is meant
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

GOLDEN = Path(__file__).with_name("help.txt")
ROOT = Path(__file__).parents[2]


def shown() -> str:
    """Our group of `pytest --help`, 100 columns wide."""
    environment = os.environ | {"COLUMNS": "100", "PYTHONPATH": str(ROOT), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "--help", "-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    group = done.stdout[done.stdout.index("parity of the Rust kernels") :]
    lines = group.splitlines()
    end = next(number for number, line in enumerate(lines[1:], 1) if line and not line.startswith(" "))
    return "\n".join(lines[:end]).rstrip() + "\n"


def test_help_is_as_written_down() -> None:
    assert shown() == GOLDEN.read_text(), f"if this is meant: python {Path(__file__).relative_to(ROOT)} > help.txt"


if __name__ == "__main__":
    print(shown(), end="")
