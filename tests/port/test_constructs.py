# SPDX-License-Identifier: MIT
"""docs/constructs.md says what the emitters say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.tile")
ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_emitters_say():
    answer = subprocess.run([sys.executable, str(ROOT / "tools" / "constructs.py"), "--check"], check=False)
    assert answer.returncode == 0, "run: python tools/constructs.py"
