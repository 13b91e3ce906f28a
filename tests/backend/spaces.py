# SPDX-License-Identifier: MIT
"""Configurations of a space, for tests that execute them on the CPU."""

from __future__ import annotations

import dataclasses

HINTS = {"occupancy": 0, "num_worker_warps": 0, "num_cta_in_cga": 0}


def apart_from_hints(configs):
    """Return one of each that differ in hints alone: these are for the assembler, execution ignores them."""
    kinds = {}
    for config in configs:
        hints = {name: value for name, value in HINTS.items() if hasattr(config, name)}
        kinds.setdefault(dataclasses.replace(config, **hints), config)
    return list(kinds.values())
