# SPDX-License-Identifier: MIT
"""A host program of a user's own as something to port: `tilegym-rs port FILE.py:FUNCTION`.

The function takes a device (``"meta"``, ``"cpu"``, ``"cuda"``), makes tensors there and launches cuTile Python kernels
with ``ct.launch``. It has one case, no tolerance and no perf case: its proof is equal machine code and equal bits.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from typing import NamedTuple

from ..errors import TilegymRsError
from ..target import executing_target
from ..target import recording_target
from .redirect import Elsewhere
from .redirect import redirect


class _Call(NamedTuple):
    device: str


@dataclass(frozen=True)
class ProgramCase:
    """The one case; what a stage asks of a parity case."""

    op: str
    id: str = "call"
    dtype: str = "any"
    shape: tuple[int, ...] = ()
    params: tuple[tuple[str, object], ...] = ()
    perf: bool = False
    data: str = "own"
    raises: str = ""
    structural: bool = True

    def seed(self, run_seed: int) -> int:
        """The program makes its own numbers."""
        return run_seed


class ProgramSuite:
    """What the stages ask of an op's suite, answered for a program.

    Attributes:
        name: the function's.
        sources: files that decide what it launches.
    """

    def __init__(self, function: Callable[[str], Any], name: str, sources: tuple[Path, ...] = ()) -> None:
        self.name = name
        self.sources = sources
        self.cases = (ProgramCase(name),)
        self.tolerance: dict[str, Any] = {}
        self._function = function

    def arch_for(self, arch: str) -> str:
        """Any."""
        return arch

    def inputs(self, case: ProgramCase, device: str, seed: int) -> _Call:
        """The program makes its tensors itself, on ``device``."""
        return _Call(device)

    def bytes_moved(self, case: ProgramCase) -> int:
        """Unknown; a program is taken for small."""
        return 0

    def flops(self, case: ProgramCase) -> int:
        """Unknown."""
        return 0

    def call(self, call: _Call, backend: str | None = None) -> Any:
        """Run the program; under our backend its launches are answered by translations."""
        if backend != "cutile_rs":
            return self._function(call.device)
        target = recording_target() or executing_target()
        return Elsewhere(redirect().kernels, target, call.device).run(lambda: self._function(call.device))


def load(text: str) -> ProgramSuite:
    """Return the program that ``FILE.py:FUNCTION`` names; the file is run.

    Raises:
        TilegymRsError: there is no such file or function.
    """
    file, _, name = text.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise TilegymRsError(f"{text}: there is no file {path}; name a program as FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TilegymRsError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    function = getattr(module, name, None)
    if not callable(function):
        raise TilegymRsError(f"{path} has no function {name!r}")
    return ProgramSuite(function, name, (path,))
