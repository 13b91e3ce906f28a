# SPDX-License-Identifier: MIT
from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def not_on_github(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
