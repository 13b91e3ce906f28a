# SPDX-License-Identifier: MIT
"""What a build says while it runs: to a terminal, to a log, and in its error."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from tilegym_rs_backend.build import ensure_library
from tilegym_rs_backend.errors import BuildError

from .conftest import World

BUILD = (
    "from pathlib import Path; import sys; from tilegym_rs_backend.build import *; ensure_library(Path(sys.argv[1]))"
)


def on_a_terminal(world: World) -> str:
    """Standard error of a build, as somebody at a terminal sees it."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", BUILD, str(world.crate)], env=world.env, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            block = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not block:
            break
        seen += block
    os.close(ours)
    assert process.wait(timeout=30) == 0
    return seen.decode().replace("\r\n", "\n")


def test_a_terminal_shows_cargos_lines(world: World) -> None:
    lines = on_a_terminal(world).splitlines()
    assert lines[0].startswith("tilegym-rs: building crate: no library of this crate was built here yet (log: ")
    assert lines[1] == "   Compiling fake v0.1.0"
    assert lines[2].startswith("tilegym-rs: built libcutile_kernels-")
    assert lines[2].endswith(" s")
    assert len(lines) == 3


def test_elsewhere_a_heartbeat_stands_in(world: World) -> None:
    (world.fake / "sleep").write_text("1", encoding="ascii")
    status, _, err = world.run(
        "from tilegym_rs_backend import progress; progress.HEARTBEAT_S = 0.3; ensure_library(crate)"
    )
    assert status == 0, err
    lines = err.splitlines()
    assert "   Compiling fake v0.1.0" not in lines
    beats = [line for line in lines if line.startswith("tilegym-rs: still building after ")]
    assert len(beats) >= 2
    assert beats[0].endswith(" s: Compiling fake v0.1.0"), "with the last line that cargo wrote"


def test_what_an_error_carries(world: World) -> None:
    (world.fake / "fail").write_text("error: failed to download `syn v2.0.1`\n", encoding="ascii")
    with pytest.raises(BuildError) as caught:
        ensure_library(world.crate)
    error = caught.value
    assert (error.stage, error.returncode) == ("cargo", 101)
    assert error.command[:2] == (str(world.fake / "bin" / "cargo"), "build")
    assert error.log_path is not None
    assert error.log_path.read_text(encoding="utf-8").startswith("$ ")
    lines = str(error).splitlines()
    assert lines[:2] == ["[cargo] the build failed:", "error: failed to download `syn v2.0.1`"]
    assert [line.split(":")[0] for line in lines[2:]] == ["  command", "  exit status", "  full log", "  fix"]
    assert "tilegym-rs bundle" in lines[-1]
    assert len(lines) <= 40
