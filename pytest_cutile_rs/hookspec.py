# SPDX-License-Identifier: MIT
"""Hooks with which a project adds its own ops to the parity run, or replaces a part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any

import pytest

if TYPE_CHECKING:
    from pytest_cutile_rs.backend import Backend
    from pytest_cutile_rs.case import Case
    from pytest_cutile_rs.case import OpSuite
    from pytest_cutile_rs.result import CheckResult


@pytest.hookspec
def pytest_cutile_rs_suites(config: pytest.Config) -> list[OpSuite]:  # type: ignore[empty-body]
    """Further op suites; one with the name of a built-in suite replaces it.

    Example::

        def pytest_cutile_rs_suites(config):
            from my_kernels.parity import SUITE
            return [SUITE]
    """


@pytest.hookspec(firstresult=True)
def pytest_cutile_rs_backend(config: pytest.Config) -> Backend | None:
    """The side under test; the default runs ``tilegym_rs_backend``."""


@pytest.hookspec(firstresult=True)
def pytest_cutile_rs_peer(config: pytest.Config) -> Any:
    """The side compared with; the default captures cuTile Python's kernels."""


@pytest.hookspec(firstresult=True)
def pytest_cutile_rs_timer(config: pytest.Config) -> Any:
    """The device timer; the default is CUPTI."""


@pytest.hookspec(firstresult=True)
def pytest_cutile_rs_check(config: pytest.Config, check: str, suite: OpSuite, case: Case) -> CheckResult | None:
    """Replaces one check of one case; None leaves it to the plugin. Example: a check on hardware of one's own."""


@pytest.hookspec
def pytest_cutile_rs_update_report(config: pytest.Config, report: dict[str, Any]) -> None:
    """May add to the run's report (JSON types only) before it is written."""
