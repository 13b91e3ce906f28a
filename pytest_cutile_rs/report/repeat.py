# SPDX-License-Identifier: MIT
"""The command that runs one check again and judges it as it was judged. Standard library only."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

# What changes an item's outcome, with the default that needs no mention. The seed is always given.
_OPTIONS = (
    *(("arch", ""), ("perf_budget", 20.0), ("timer", "cupti"), ("protocol", ""), ("ambiguous", "xfail")),
    ("variant", "auto"),
)


def arguments(options: Mapping[str, Any]) -> list[str]:
    """The command-line words, from the options of the run as the report has them.

    A threshold is among them only when the command line gave it: the project's own apply again by themselves.
    """
    words = ["--cutile-rs-seed", str(options.get("seed", 0))]
    if options.get("threshold_given"):
        words += ["--cutile-rs-threshold", f"{options['threshold']:g}"]
    for name, default in _OPTIONS:
        value = options.get(name) or default
        if value != default:
            words += [f"--cutile-rs-{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)]
    return words


def repeat_command(nodeid: str, options: Mapping[str, Any]) -> str:
    """A line for a shell."""
    return shlex.join(["pytest", nodeid, *arguments(options)])
