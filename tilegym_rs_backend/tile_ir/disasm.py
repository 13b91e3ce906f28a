# SPDX-License-Identifier: MIT
"""Run ``tileirdisasm``, the disassembler beside tileiras: the second opinion on reader.py, in tests and tools."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tilegym_rs_backend.errors import CompileError
from tilegym_rs_backend.errors import ToolchainError

TIMEOUT_S = 60.0


def find_tileirdisasm(tileiras: Path) -> Path:
    """The disassembler beside a tileiras.

    Raises:
        ToolchainError: there is none (toolkits before 13.4 have none).
    """
    tool = tileiras.parent / "tileirdisasm"
    if not tool.is_file():
        raise ToolchainError(
            f"No tileirdisasm beside {tileiras}. It comes with toolkit 13.4 and later; `tilegym-rs setup` installs one."
        )
    return tool


def disassemble(bytecode: bytes, tool: Path) -> str:
    """Run ``tileirdisasm`` on a bytecode and return its text.

    Raises:
        CompileError: the tool refused the bytecode (its message is kept) or took longer than a minute.
    """
    from tilegym_rs_backend.toolchain.env import tileiras_env

    with tempfile.TemporaryDirectory(prefix="tilegym-rs-ir-") as folder:
        source = Path(folder) / "kernel.tileirbc"
        source.write_bytes(bytecode)
        try:
            done = subprocess.run(
                [str(tool), str(source)],
                capture_output=True,
                text=True,
                errors="replace",
                env=tileiras_env(),
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CompileError(
                f"{tool.name} did not answer within {TIMEOUT_S:.0f} s on {len(bytecode)} bytes of bytecode."
            ) from None
        except OSError as error:
            raise ToolchainError(
                f"{tool} cannot be run: {error}. Check the toolkit with `tilegym-rs doctor`."
            ) from error
    if done.returncode:
        raise CompileError(
            f"{tool.name} refused the bytecode (exit status {done.returncode}): {done.stderr.strip()[-2000:]}"
        )
    return done.stdout
