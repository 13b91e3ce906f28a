# SPDX-License-Identifier: MIT
"""One module per verb of ``tilegym-rs``, named like it (``-`` as ``_``).

A module has a docstring (the long help), ``HELP`` (one line), ``configure(parser)`` which adds its arguments, and
``run(options) -> int`` which does the work and returns the exit status. Import heavy things inside ``run``.
"""

from __future__ import annotations

import argparse
import json
from typing import Protocol


class Command(Protocol):
    """What ``cli.py`` expects of a module in this package."""

    HELP: str

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's arguments."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it; return the exit status."""


def print_json(value: object) -> None:
    """Print ``value`` as indented JSON with sorted keys."""
    print(json.dumps(value, indent=2, sort_keys=True, default=str))
