# SPDX-License-Identifier: MIT
"""The command that runs one check again as it was run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

# What changes an item's outcome, with the default that needs no mention. The seed is always given.
_OPTIONS = (("arch", ""), ("threshold", 0.95), ("perf_budget", 20.0))


def repeat_command(nodeid: str, options: Mapping[str, Any]) -> str:
    """A shell command line, from the options of the run as the report has them."""
    words = ["pytest", nodeid, "--cutile-rs-seed", str(options.get("seed", 0))]
    for name, default in _OPTIONS:
        value = options.get(name, default)
        if value != default:
            words += [f"--cutile-rs-{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)
