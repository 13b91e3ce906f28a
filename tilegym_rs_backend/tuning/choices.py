# SPDX-License-Identifier: MIT
"""What was chosen, kept across processes: one file per bucket of problems and machine.

`<cache>/tune/<space>/<key>.json`. The key covers the kernels' sources, architecture, GPU, driver, tileiras and bucket;
the file repeats them in words, with all that was tried. Without GPU and driver it is a plan: compiled, pruned and
ranked, not measured. A file of another version, or damaged, counts as absent.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from dataclasses import asdict
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import atomic
from ..errors import TilegymRsError
from .space import text

VERSION = 1


@dataclass(frozen=True)
class Key:
    """What a choice is good for.

    Attributes:
        space: the space's name.
        kernels: digest of the sources that decide its machine code and its launches (`here.kernel_digest`).
        arch, gpu, driver, tileiras: the machine; gpu and driver are empty for a plan.
        planner: digest of what made and ranked a plan; empty for a choice, which stays right when the model changes.
        bucket: of the problem, dtype included.
    """

    space: str
    kernels: str
    arch: str
    gpu: str
    driver: str
    tileiras: str
    bucket: Mapping[str, Any]
    planner: str = ""
    version: int = VERSION

    def __post_init__(self) -> None:
        if not str(self.space).isidentifier():  # it names a folder, and may come from a file somebody imports
            raise ValueError(f"{self.space!r} is no name of a space")

    @property
    def planned(self) -> bool:
        """Whether this is the key of a plan."""
        return not self.gpu

    def plan(self, planner: str) -> Key:
        """Return the key of the plan that serves this bucket on any GPU of the architecture."""
        return replace(self, gpu="", driver="", planner=planner)

    @property
    def digest(self) -> str:
        """The file's name: 32 hex digits."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Tried:
    """One candidate.

    Attributes:
        config: its fields.
        predicted_us, us: by the model, and the median measured; 0: not.
        why: the reason it was dropped, empty if it was not.
        spec_text: its kernel's specialization, empty if that failed.
        resources: of its cubin, empty if there is none.
    """

    config: Mapping[str, Any]
    predicted_us: float = 0.0
    us: float = 0.0
    why: str = ""
    spec_text: str = ""
    resources: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A search's result.

    Attributes:
        key: what it is good for.
        config: the configuration chosen.
        us: its median; default_us: the shipped default's, 0 if that was not measured.
        tried: every candidate that was compiled, best first (measured before predicted), then those dropped.
        space_size: configurations of the space; left_out: how many each reason dropped before compiling.
        seconds: the search took; compile_s, of which compiling.
        when: UTC.
    """

    key: Key
    config: Mapping[str, Any]
    us: float = 0.0
    default_us: float = 0.0
    tried: tuple[Tried, ...] = ()
    space_size: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    compile_s: float = 0.0
    when: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return JSON types; `from_json` reads them back."""
        return asdict(self)

    def report(self) -> dict[str, Any]:
        """Return what a report shows of the search, in JSON types."""
        return {
            "bucket": dict(self.key.bucket),
            "configurations": self.space_size,
            "compiled": len(self.tried),
            "listed": [text(each.config) for each in self.tried],
            "chosen": text(self.config),
            "us": self.us,
            "default_us": self.default_us,
            "failed": sum(1 for each in self.tried if each.why),
            "seconds": self.seconds,
            "when": self.when,
            "tried": [
                {"config": text(each.config), "predicted_us": each.predicted_us, "us": each.us, "why": each.why}
                for each in self.tried
            ],
            "left_out": dict(self.left_out),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Choice:
        """Return what `to_json` wrote; raises TypeError or KeyError for anything else."""
        fields = dict(data)
        fields["key"] = Key(**fields["key"])
        fields["tried"] = tuple(Tried(**each) for each in fields["tried"])
        return cls(**fields)


class Choices:
    """The files under one folder. Writing is soft, as in the cubin store: a lost choice costs a search."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, key: Key) -> Choice | None:
        """Return the choice of a key, None if there is none."""
        choice = self._read(self._path(key))
        return choice if choice is not None and choice.key == key else None

    def put(self, choice: Choice) -> None:
        """Keep a choice."""
        atomic.keep(self._path(choice.key), json.dumps(choice.to_json(), indent=1))

    def every(self, space: str = "") -> Iterator[Choice]:
        """Yield the choices and plans of a space, or all of them, by space and bucket."""
        found = [self._read(path) for path in sorted(self.root.glob(f"{space or '*'}/*.json"))]
        known = [choice for choice in found if choice is not None]
        yield from sorted(known, key=lambda each: (each.key.space, str(each.key.bucket)))

    def clear(self, space: str = "") -> int:
        """Remove the choices of a space, or all of them; return how many there were."""
        paths = list(self.root.glob(f"{space or '*'}/*.json"))
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    def export(self, path: Path, space: str = "") -> int:
        """Write the choices of a space, or all of them, into one file; return how many."""
        found = [choice.to_json() for choice in self.every(space)]
        path.write_text(json.dumps({"version": VERSION, "choices": found}, indent=1) + "\n", encoding="utf-8")
        return len(found)

    def import_file(self, path: Path) -> int:
        """Take over the choices of a file that `export` wrote; return how many.

        Raises:
            TilegymRsError: the file is none, or of another version.
        """
        choices = list(read_export(path))
        for choice in choices:
            self.put(choice)
        return len(choices)

    def _path(self, key: Key) -> Path:
        return self.root / key.space / f"{key.digest}.json"

    def _read(self, path: Path) -> Choice | None:
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            choice = Choice.from_json(json.loads(path.read_text(encoding="utf-8")))
            return choice if choice.key.version == VERSION else None
        return None


def read_export(path: Path) -> Iterable[Choice]:
    """Return the choices of a file that `Choices.export` wrote.

    Raises:
        TilegymRsError: the file is none, or of another version.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        version = data["version"]
        choices = [Choice.from_json(each) for each in data["choices"]] if version == VERSION else []
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TilegymRsError(f"{path} is no file that `tilegym-rs tune export` wrote: {error}") from error
    if version != VERSION:
        raise TilegymRsError(f"{path} has version {version} of the format, this package reads {VERSION}: tune again")
    return choices
