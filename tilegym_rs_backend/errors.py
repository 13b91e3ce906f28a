# SPDX-License-Identifier: MIT
"""The exceptions of this package: few types, each message says what, why and how to fix it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


class TilegymRsError(Exception):
    """Base of every error this package raises on its own account."""


class ToolchainError(TilegymRsError):
    """A tool (cargo, cc, libclang, the CUDA toolkit, tileiras) is missing or does not fit."""


class BuildError(TilegymRsError):
    """Building or loading the Rust library failed.

    Attributes:
        stage: where it stopped: ``"preflight"``, ``"lock"``, ``"cargo"``, ``"bindgen"``, ``"link"``, ``"publish"`` or
            ``"load"``.
        command: the command line that failed, empty when none ran.
        returncode: its exit status, ``None`` when it did not end by itself.
        log_path: the full log on disk.
        hints: ways out, matched from known failures.
    """

    def __init__(
        self,
        message: str,
        *,
        stage: str,
        command: Sequence[str] = (),
        returncode: int | None = None,
        log_path: Path | None = None,
        hints: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.command = tuple(command)
        self.returncode = returncode
        self.log_path = log_path
        self.hints = tuple(hints)

    def __str__(self) -> str:
        lines = [f"[{self.stage}] {self.args[0]}"]
        if self.command:
            lines.append(f"  command: {' '.join(self.command)}")
        if self.returncode is not None:
            lines.append(f"  exit status: {self.returncode}")
        if self.log_path is not None:
            lines.append(f"  full log: {self.log_path}")
        lines.extend(f"  fix: {hint}" for hint in self.hints)
        return "\n".join(lines)


class CompileError(TilegymRsError):
    """A specialization could not be turned into machine code (front end or tileiras)."""


class LaunchError(TilegymRsError):
    """A launch was refused or failed; the return code is in ``rc``."""

    def __init__(self, message: str, *, rc: int = 0) -> None:
        super().__init__(message)
        self.rc = rc


class CaptureError(LaunchError):
    """A launch under CUDA-graph capture needs a kernel that is not loaded yet."""
