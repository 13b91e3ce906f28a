# SPDX-License-Identifier: MIT
"""Finds the op suites. Importing them needs no torch."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable

from pytest_cutile_rs import cases
from pytest_cutile_rs.case import OpSuite


def suites(extra: Iterable[OpSuite] = ()) -> dict[str, OpSuite]:
    """Every op suite by name, sorted: one per file of ``cases/``, plus ``extra``, which may replace built-in ones."""
    found: dict[str, OpSuite] = {}
    for module in pkgutil.iter_modules(cases.__path__):
        if not module.name.startswith("_"):
            suite = importlib.import_module(f"{cases.__name__}.{module.name}").SUITE
            found[suite.name] = suite
    found.update((suite.name, suite) for suite in extra)
    return dict(sorted(found.items()))


def is_built_in(suite: OpSuite) -> bool:
    """Whether a suite is one of ``cases/`` and not of a hook."""
    return type(suite).__module__.startswith(f"{cases.__name__}.")
