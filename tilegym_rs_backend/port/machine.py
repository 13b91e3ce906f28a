# SPDX-License-Identifier: MIT
"""What a host program asks ``torch.cuda`` about the machine, answered for a GPU that need not be there.

The answers are given to the capturing thread alone: every replacement asks first whether its own thread is capturing
and otherwise calls what it replaced, so live GPU work in other threads goes on undisturbed.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from types import SimpleNamespace
from typing import Any

from tilegym_rs_backend.errors import TilegymRsError
from tilegym_rs_backend.target import SM_COUNTS

# arch -> (L2 bytes, name) of the part whose multiprocessors `SM_COUNTS` counts.
_PARTS: dict[str, tuple[int, str]] = {
    "sm_80": (40 << 20, "A100"),
    "sm_86": (6 << 20, "RTX 3090"),
    "sm_89": (96 << 20, "L40S"),
    "sm_90": (60 << 20, "H200"),
    "sm_100": (126 << 20, "B200"),
    "sm_103": (126 << 20, "B300"),
    "sm_120": (128 << 20, "RTX PRO 6000 Blackwell"),
    "sm_121": (24 << 20, "GB10"),
}


patching = threading.RLock()
"""Held while attributes of other modules are replaced or restored, here or for good (intercept.py)."""
_IN_FRONT = "_tilegym_rs_in_front"


@dataclass(frozen=True)
class Machine:
    """The GPU that a captured host program believes to run on; it decides grids and tuning spaces."""

    arch: str
    capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    name: str

    def properties(self) -> SimpleNamespace:
        """Answer ``torch.cuda.get_device_properties``."""
        return SimpleNamespace(
            name=f"{self.name} (not present: a capture runs)",
            major=self.capability[0],
            minor=self.capability[1],
            multi_processor_count=self.sm_count,
            L2_cache_size=self.l2_bytes,
            total_memory=80 << 30,
            warp_size=32,
            max_threads_per_multi_processor=2048,
            regs_per_multiprocessor=65536,
            shared_memory_per_block=48 << 10,
            shared_memory_per_block_optin=227 << 10,
            shared_memory_per_multiprocessor=228 << 10,
        )


def machine(arch: str = "sm_90", sm_count: int | None = None) -> Machine:
    """Describe the GPU of ``arch`` (``"sm_90"``), with another SM count if one is given.

    Raises:
        TilegymRsError: for a malformed arch, or an unknown one without ``sm_count``.
    """
    match = re.fullmatch(r"sm_(\d+)(\d)[af]?", arch)
    if match is None:
        raise TilegymRsError(f"{arch!r} is no GPU architecture. Write it as in 'sm_90' or 'sm_120'.")
    base = arch.rstrip("af")
    known = SM_COUNTS.get(base)
    if known is None and sm_count is None:
        raise TilegymRsError(
            f"The number of SMs of {arch} is not known here, and grids depend on it. "
            f"Pass sm_count=, or use one of {', '.join(SM_COUNTS)}."
        )
    l2_bytes, name = _PARTS.get(base, (64 << 20, arch))
    count = sm_count if sm_count is not None else SM_COUNTS[base]
    if count < 1:
        raise TilegymRsError(f"sm_count has to be positive, got {count}.")
    return Machine(base, (int(match[1]), int(match[2])), count, l2_bytes, name)


class Patches:
    """Attributes replaced while at least one capture runs, each for the capturing threads alone.

    ``answers`` maps a replaced attribute to the function that answers for a capturing thread, which need not answer
    all; it is looked up in thread-local state, so that several threads may capture at once, each for its own machine.

    Args:
        targets: yields (object, attribute, key into answers) for everything to replace.
    """

    def __init__(self, targets: Callable[[], Iterator[tuple[Any, str, str]]]) -> None:
        self._targets = targets
        self._users = 0
        self._undo: list[tuple[Any, str, Callable[..., Any], bool]] = []
        self._local = threading.local()

    @property
    def answers(self) -> dict[str, Callable[..., Any]] | None:
        """The calling thread's answers, None while it captures nothing."""
        found: dict[str, Callable[..., Any]] | None = getattr(self._local, "answers", None)
        return found

    @contextlib.contextmanager
    def active(self, answers: dict[str, Callable[..., Any]]) -> Iterator[None]:
        """Answer the calling thread's look-ups by ``answers``. A second capture inside one on a thread is an error."""
        if self.answers is not None:
            raise TilegymRsError("A capture already runs on this thread: captures cannot be nested.")
        with patching:
            if self._users == 0:
                try:
                    for owner, attribute, key in self._targets():
                        dispatcher, own = self._dispatcher(getattr(owner, attribute), key), attribute in vars(owner)
                        setattr(owner, attribute, dispatcher)
                        self._undo.append((owner, attribute, dispatcher, own))
                except BaseException:
                    self._restore()
                    raise
            self._users += 1
        self._local.answers = answers
        try:
            yield
        finally:
            self._local.answers = None
            with patching:
                self._users -= 1
                if self._users == 0:
                    self._restore()

    def _dispatcher(self, original: Callable[..., Any], key: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            answers = self.answers
            answer = None if answers is None else answers.get(key)
            return (answer or call.__wrapped__)(*args, **kwargs)  # type: ignore[attr-defined]

        call.__wrapped__ = original  # type: ignore[attr-defined]
        setattr(call, _IN_FRONT, True)
        call.__name__ = call.__qualname__ = getattr(original, "__name__", key)
        call.__doc__ = getattr(original, "__doc__", None)
        return call

    def _restore(self) -> None:
        while self._undo:
            owner, attribute, dispatcher, own = self._undo.pop()
            if own:
                setattr(owner, attribute, dispatcher.__wrapped__)  # type: ignore[attr-defined]
            else:
                delattr(owner, attribute)  # it was, and is again, inherited


def replaced(function: Any) -> tuple[Any, Any]:
    """Return what a running capture has in front of ``function``'s original, None if nothing, and the original.

    The first one's ``__wrapped__`` may be set: that is what it calls outside captures, and what is restored after them.
    """
    dispatcher = None
    while isinstance(function, FunctionType) and hasattr(function, _IN_FRONT):
        dispatcher, function = function, vars(function)["__wrapped__"]
    return dispatcher, function


def machine_answers(gpu: Machine) -> dict[str, Callable[..., Any]]:
    """Answers to the ``torch.cuda`` questions an op's host code asks; see ``machine_targets`` for the places."""
    stream = SimpleNamespace(cuda_stream=0, device_index=0, synchronize=lambda: None)
    return {
        "is_available": lambda *_: True,
        "device_count": lambda *_: 1,
        "get_device_capability": lambda *_, **__: gpu.capability,
        "get_device_properties": lambda *_, **__: gpu.properties(),
        "get_device_name": lambda *_, **__: gpu.name,
        "current_device": lambda *_: 0,
        "current_stream": lambda *_, **__: stream,
        "default_stream": lambda *_, **__: stream,
        "synchronize": lambda *_, **__: None,
        "is_current_stream_capturing": lambda *_: False,
        "cuda": lambda tensor, *_, **__: tensor,
        "new_stream": lambda *_, **__: stream,
    }


def machine_targets() -> Iterator[tuple[Any, str, str]]:
    """Where those questions are asked."""
    import torch

    elsewhere = {"cuda": (torch.Tensor, "cuda"), "new_stream": (torch.cuda.Stream, "__new__")}
    for name in machine_answers(machine()):
        owner, attribute = elsewhere.get(name, (torch.cuda, name))
        yield owner, attribute, name
