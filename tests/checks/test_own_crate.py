# SPDX-License-Identifier: MIT
"""docs/own_crate.md, run: a crate of one's own is built, launched and compared like this package's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import page
import pytest

pytestmark = pytest.mark.cargo
ROOT = Path(__file__).parents[2]
LAUNCH = """
import torch, my_scale
from tilegym_rs_backend import library
for size in (0, 1, 1000, 4096):
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        x = torch.randn(size).to(dtype)
        assert torch.equal(my_scale.scale(x, 0.75), x * 0.75), (size, dtype)
assert library.loaded() is None, "this package's own library is not needed for it"
print(library.open(my_scale.CRATE).path)
"""


@pytest.fixture
def project(tmp_path: Path, own_crate: Path, library) -> Path:
    """A folder with the files of the page; the crate is that of these tests, which has the page's kernel."""
    for name, text in page.files().items():
        if "/" not in name:
            (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "my_crate").symlink_to(own_crate)
    return tmp_path


def run(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": f"{project}:{ROOT}", "TILEGYM_RS_CPU": "execute", "PYTEST_ADDOPTS": ""}
    environment.pop("TILEGYM_RS_LIBRARY", None)
    command = [sys.executable, *words]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_it_launches(project: Path, library) -> None:
    done = run(project, "-c", LAUNCH)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(library.path), "the library that is there for these sources"


def test_the_plugin_compares_it(project: Path) -> None:
    done = run(project, "-m", "pytest", "--cutile-rs", "--cutile-rs-ops", "scale", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    [summary] = (project / ".cutile_rs").rglob("summary.json")
    results = json.loads(summary.read_text(encoding="utf-8"))["results"]
    found = {(each["check"], each["case"]): each["status"] for each in results}
    for dtype in ("f32", "f16"):
        for size in (1, 1000, 4096):
            for check in ("numerics", "ir", "sass"):
                assert found[check, f"{dtype}-{size}"] == "PASS", (check, dtype, size)
