# SPDX-License-Identifier: MIT
"""Launches of cuTile Python kernels, answered by their translations to Rust.

What a launch needs is decided by its kernel's sources, its constants and the facts about its arguments; that key finds
an entry of the crate of translated kernels, in memory, then on disk, and at last by translating.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import threading
from collections.abc import Callable
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from ..cpu import of_translations
from ..errors import CompileError
from ..launch import bind
from ..target import Target
from ..tensors import MAX_RANK
from ..tensors import TensorMeta
from ..tensors import meta_of
from ..tensors import torch_dtype
from .cached import CachedCrate
from .signature import signature

if TYPE_CHECKING:
    from .capture import CapturedLaunch

_ADDRESSES = ("tensor", "pointer", "list")
_HINTS = {"num_ctas": "num_cta_in_cga", "occupancy": "occupancy", "num_worker_warps": "num_worker_warps"}


@dataclass(frozen=True)
class Entry:
    """A translated kernel for one key.

    Attributes:
        name: of the module and of the kernel in it.
        arguments: (kind, index into the launch's arguments, axis) of each parameter that is passed, in order.
        constants: const generics by name.
        passes: parity passes of the front end that the entry asks for.
        baked: constants whose values are in the text.
    """

    name: str
    arguments: tuple[tuple[str, int, int], ...]
    constants: dict[str, int]
    passes: tuple[str, ...] = ()
    baked: tuple[str, ...] = ()


class PortedKernels:
    """Translated kernels by key; safe to use from several threads and processes."""

    def __init__(self, crate: CachedCrate | None = None) -> None:
        self.crate = crate or CachedCrate()
        self._entries: dict[str, Entry] = {}
        self._lock = threading.RLock()

    def prepare(
        self, launches: Sequence[CapturedLaunch], beat: Callable[[str], None] = lambda text: None
    ) -> dict[str, Exception]:
        """Translate what is new among ``launches`` and build it in one go.

        Returns what failed: the launch's key -> the refusal or the compiler's answer. ``beat`` is told how far it is.
        """
        failed: dict[str, Exception] = {}
        with self._lock:
            made: dict[str, tuple[Entry, str]] = {}
            for number, launch in enumerate(launches, 1):
                beat(f"translated {number - 1} of {len(launches)} launches")
                key = key_of(launch)
                if key in made or key in failed or self.known(key) is not None:
                    continue
                try:
                    made[key] = _translated(launch)
                except Exception as error:  # a refusal concerns its own kernel alone
                    failed[key] = error
            if made:
                self._add(made, failed)
        return failed

    def entry(self, launch: CapturedLaunch) -> Entry:
        """Return the entry for a launch, translated and built if need be.

        Raises:
            Refused: the translator has no Rust form for the kernel.
            CompileError: a front end, or rustc, refuses it.
            BuildError: the crate cannot be built.
        """
        key = key_of(launch)
        found = self.known(key)
        if found is None:
            failed = self.prepare([launch])
            if failed:
                raise next(iter(failed.values()))
            found = self._entries[key]
        return found

    def bound(self, launch: CapturedLaunch, target: Target) -> tuple[Callable[..., None], tuple[int, ...]]:
        """Specialize and plan a launch: a callable of addresses, and which of the launch's arguments they are of."""
        entry = self.entry(launch)
        arguments = [_argument(launch.args[index], kind, axis) for kind, index, axis in entry.arguments]
        hints = {_HINTS[name]: value for name, value in launch.hints.items() if name in _HINTS}
        if "opt_level" in launch.hints:
            raise CompileError(
                f"kernel {launch.name} asks for opt_level {launch.hints['opt_level']}; here it is always 3"
            )
        pointers = tuple(index for kind, index, _ in entry.arguments if kind in _ADDRESSES)
        library = self.crate.library()
        return bind(library, target, entry.name, launch.grid, *arguments, **entry.constants, **hints), pointers

    def known(self, key: str) -> Entry | None:
        """Return the entry of a key if it was made before, by any process."""
        found = self._entries.get(key)
        if found is None:
            try:
                record = json.loads(self._file(key).read_text(encoding="utf-8"))
                found = Entry(**{**record, "arguments": tuple(map(tuple, record["arguments"]))})
            except (OSError, ValueError, TypeError, KeyError):
                return None  # absent, or half written by a process that died: translating gives it again
            if not self.crate.has(found.name):
                return None
            self._entries[key] = found
        return found

    def _add(self, made: dict[str, tuple[Entry, str]], failed: dict[str, Exception]) -> None:
        new = {entry.name: text for entry, text in made.values() if not self.crate.has(entry.name)}
        refused = self.crate.add(new) if new else {}
        for key, (entry, _) in made.items():
            if entry.name in refused:
                failed[key] = CompileError(f"rustc refused {entry.name}, translated from Python: {refused[entry.name]}")
                continue
            self._entries[key] = entry
            _write(self._file(key), json.dumps(asdict(entry)))

    def _file(self, key: str) -> Path:
        return self.crate.folder / "map" / f"{key}.json"


def carry_out(kernels: PortedKernels, launch: CapturedLaunch, target: Target) -> None:
    """Execute or record a launch's translation, on a target that is no GPU."""
    run, positions = kernels.bound(launch, target)
    args = with_tables(launch.args)
    with of_translations(undescribed(launch.args)):
        run(*pointers_of(args, positions))


def key_of(launch: CapturedLaunch) -> str:
    """Name everything that decides a launch's translation."""
    parts = [
        launch.name,
        sources_digest(launch.kernel._annotated_function.pyfunc),
        repr(sorted((name, repr(value)) for name, value in launch.constants.items())),
        repr(signature(launch).parameters),
        launch.arch,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@lru_cache(maxsize=512)
def sources_digest(function: Any) -> str:
    """Digest the files that a kernel's text comes from: its own, and those of the functions it names."""
    files: set[str] = set()
    _files_of(function, files, set())
    digest = hashlib.sha256()
    for content in sorted(Path(name).read_bytes() for name in files):  # the same wherever they are installed
        digest.update(content)
    return digest.hexdigest()


def _files_of(function: Any, files: set[str], seen: set[int]) -> None:
    if id(function) in seen:
        return
    seen.add(id(function))
    code = function.__code__
    if os.path.isfile(code.co_filename):
        files.add(code.co_filename)
    for name in code.co_names:
        value = function.__globals__.get(name)
        value = getattr(value, "__wrapped__", getattr(value, "_pyfunc", value))
        if inspect.isfunction(value) and not value.__module__.startswith("cuda."):
            _files_of(value, files, seen)


def _translated(launch: CapturedLaunch) -> tuple[Entry, str]:
    """Translate a launch into a module whose name says what its text is."""
    from .translate import translate

    canonical = translate(launch)
    name = f"{canonical.entry}_{hashlib.sha256(canonical.source.encode()).hexdigest()[:8]}"
    made = translate(launch, name)
    entry = Entry(
        name=made.entry,
        arguments=tuple(
            (p.kind, p.argument, p.axis) for p in made.parameters if p in made.descriptors or p in made.scalars
        ),
        constants={generic.name: generic.value for generic in made.generics},
        passes=made.passes,
        baked=made.baked,
    )
    return entry, made.source


def _argument(value: Any, kind: str, axis: int) -> Any:
    """What `bind` is given for one parameter."""
    if kind == "list":
        words = len(value) * (1 + 2 * value[0].ndim)
        return TensorMeta((words,), (1,), torch_dtype("i64"), True)
    if kind in ("tensor", "pointer"):
        meta = meta_of(value)
        # Beyond the descriptor's rank the address alone is one, and the rest comes as scalars.
        return meta if value.ndim <= MAX_RANK else TensorMeta((), (), meta.dtype, meta.aligned)
    return {"extent": _extent, "stride": _stride, "length": _length, "scalar": _itself}[kind](value, axis)


def _extent(value: Any, axis: int) -> int:
    return int(value.shape[axis])


def _stride(value: Any, axis: int) -> int:
    return int(value.stride(axis))


def _length(value: Any, axis: int) -> int:
    return len(value)


def _itself(value: Any, axis: int) -> Any:
    return value


def with_tables(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Replace lists of tensors by the rows of 64-bit words (address, extents, strides) that a kernel reads.

    The rows live on the tensors' device; the caller keeps them until the launch is made.
    """
    return tuple(table_of(value) if isinstance(value, list) else value for value in arguments)


def table_of(tensors: list[Any]) -> Any:
    """Return the words of a list of tensors, on their device."""
    import torch

    rows = [[t.data_ptr() if not t.is_meta else 0, *t.shape, *t.stride()] for t in tensors]
    return torch.tensor(rows, dtype=torch.int64).to(tensors[0].device)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    staging = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    staging.write_text(text, encoding="utf-8")
    staging.replace(path)


def undescribed(arguments: Sequence[Any]) -> list[Any]:
    """Return the tensors whose extents no descriptor tells: those in lists, and those of high rank."""
    listed = [tensor for value in arguments if isinstance(value, list) for tensor in value]
    return listed + [value for value in arguments if hasattr(value, "data_ptr") and value.ndim > MAX_RANK]


def pointers_of(arguments: Sequence[Any], positions: tuple[int, ...]) -> tuple[int, ...]:
    """Return the addresses of the tensors at ``positions``."""
    return tuple(arguments[index].data_ptr() for index in positions)
