# SPDX-License-Identifier: MIT
"""A source that somebody else supplies for a kernel the translator refused: a person, or a tool (`--on-refused CMD`).

The command runs in a folder of its own. It finds there ``refusal.json`` (which construct, where, why; the kernel's
parameters and constants), the op's ``analysis.json``, the kernel's Python file ``original.py`` and, where it compiles,
the original's Tile IR ``original.txt``; it writes ``kernel.rs``: one module with one entry, whose parameters and const
generics have the Python parameters' names. What it writes goes through the same checks as a translation.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from ..errors import CompileError
from ..errors import TilegymRsError
from . import files
from .entries import named
from .signature import describe_arguments

if TYPE_CHECKING:
    from .capture import CapturedLaunch
    from .translate import Refused

REFUSAL, ORIGINAL, ORIGINAL_IR, SOURCE, LOG = "refusal.json", "original.py", "original.txt", "kernel.rs", "command.log"
FOLDER_VARIABLE = "TILEGYM_RS_PORT_FOLDER"
"""Set for the command: the folder it runs in."""
SECONDS = 600.0
"""The command's time limit, unless another is asked for."""
_TAIL = 400
_MODULE = re.compile(r"\bpub mod (\w+)")
_ENTRY = re.compile(r"#\[(?:tile|cutile)::entry\b.*?\bfn (\w+)", re.DOTALL)


class ExternalError(TilegymRsError):
    """The command supplied nothing that can be checked; the message is the diagnosis."""


@dataclass(frozen=True)
class Command:
    """What is run for a refused kernel, and for how long at most."""

    words: str
    seconds: float = SECONDS

    def supply(self, folder: Path, launch: CapturedLaunch, refusal: Refused, analysis: str) -> str:
        """Run the command for one launch and return the text it wrote.

        Args:
            folder: to be made for it; what an earlier run left goes.
            launch: the launch whose kernel was refused.
            refusal: the translator's.
            analysis: the text of the op's analysis.json.

        Raises:
            ExternalError: it cannot be run, fails, takes too long, or writes no source.
        """
        _prepare(folder, launch, refusal, analysis)
        environment = {**os.environ, FOLDER_VARIABLE: str(folder.resolve())}
        with (folder / LOG).open("wb") as log:
            try:
                process = subprocess.Popen(
                    shlex.split(self.words),
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except (OSError, ValueError, IndexError) as error:
                raise ExternalError(f"--on-refused {self.words!r} cannot be run: {error}") from error
            try:
                status = process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                raise ExternalError(
                    f"--on-refused {self.words!r} took more than {self.seconds:g} s and was stopped; "
                    "give it more with --on-refused-seconds"
                ) from None
            finally:
                _kill_group(process)
        said = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip()[-_TAIL:]
        if status:
            raise ExternalError(f"--on-refused {self.words!r} ended with status {status}: {said or 'no message'}")
        try:
            text = (folder / SOURCE).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExternalError(f"--on-refused {self.words!r} left no readable {SOURCE}: {error}") from error
        return text


def module_of(text: str, kernel: str) -> tuple[str, str]:
    """Return (name, text) of a supplied source, renamed so that the name says what the text is.

    Raises:
        ExternalError: it has not one module with one entry.
    """
    modules, entries = _MODULE.findall(text), _ENTRY.findall(text)
    if len(modules) != 1 or len(entries) != 1:
        raise ExternalError(
            f"{SOURCE} for {kernel} holds {len(modules)} modules and {len(entries)} entries; it has to hold one "
            "`#[cutile::module] pub mod NAME` with one `#[tile::entry(unchecked_accesses = true)] pub unsafe fn NAME`"
        )
    name = named(re.sub(r"\W+", "_", kernel).strip("_") or "kernel", text)
    renamed = re.sub(rf"\bpub mod {modules[0]}\b", f"pub mod {name}", text, count=1)
    return name, re.sub(rf"\bfn {entries[0]}\b", f"fn {name}", renamed, count=1)


def _prepare(folder: Path, launch: CapturedLaunch, refusal: Refused, analysis: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    code = launch.kernel._annotated_function.pyfunc.__code__
    asked: dict[str, Any] = {
        "kernel": launch.name,
        "module": launch.module,
        "arch": launch.arch,
        "construct": refusal.construct,
        "reason": refusal.reason,
        "file": refusal.file,
        "line": refusal.line,
        "grid": list(launch.grid),
        "hints": dict(launch.hints),
        "parameters": dict(describe_arguments(launch)),
        "constants": {name: str(value) for name, value in launch.constants.items()},
    }
    files.write(folder, REFUSAL, files.json_text(asked))
    files.write(folder, files.ANALYSIS, analysis)
    with contextlib.suppress(OSError):
        files.write(folder, ORIGINAL, Path(code.co_filename).read_bytes())
    with contextlib.suppress(CompileError):
        from ..tile_ir.printer import show
        from ..tile_ir.reader import read_module
        from .stored import bytecode

        files.write(folder, ORIGINAL_IR, show(read_module(bytecode(launch))))


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """End what the command has started, whether or not it ended itself."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
