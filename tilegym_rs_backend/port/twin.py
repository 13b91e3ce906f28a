# SPDX-License-Identifier: MIT
"""Twins: what cuTile Python's own launcher is given in a kernel's place, so that it launches our machine code.

The launcher is C++. It reads the facts about the arguments, looks for machine code under them, and asks the kernel
object (``_compile``) only when it has none. A twin has its kernel's parameters and answers with a translation's cubin:
a known launch then takes the original's way, and its time.

What the launcher looks under (the twin, signature, constants, compute capability) decides a translation's cubin too, so
what was once handed over is right for every launch that finds it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple


class Unseen(Exception):
    """The launcher has no machine code for a launch; nothing was launched, and nothing of it is remembered.

    Attributes:
        signature: the ``KernelSignature`` it asks for.
        capability: the compute capability of the device.
    """

    def __init__(self, signature: Any, capability: tuple[int, int]) -> None:
        super().__init__(f"no machine code for {signature} on compute capability {capability}")
        self.signature = signature
        self.capability = capability


class Code(NamedTuple):
    """Machine code: a cubin, and its kernel's symbol."""

    cubin: bytes
    symbol: str


class _Offers(threading.local):
    """What the calling thread's launch in progress hands over, if it is asked."""

    current: tuple[Any, Any, Code] | None = None


_offers = _Offers()
_lock = threading.Lock()
_twins: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


@functools.cache
def _twin_class() -> Any:
    from cuda.tile._cext import TileDispatcher

    class Twin(TileDispatcher):  # type: ignore[misc]
        """Stands for a kernel with its options; the launcher keeps machine code by signature in it."""

        def _compile(self, signature: Any, context: Any, capability: tuple[int, int]) -> tuple[Any, ...]:
            offer = _offers.current
            if offer is None or offer[0] is not self or offer[1] != signature:
                raise Unseen(signature, capability)
            return (*offer[2], None, ())

    return Twin


@contextlib.contextmanager
def offered(twin: Any, signature: Any, code: Code) -> Iterator[None]:
    """Hand ``code`` over to the launcher if it asks for it in the block, on this thread."""
    before = _offers.current
    _offers.current = (twin, signature, code)
    try:
        yield
    finally:
        _offers.current = before


def twin_of(kernel: Any) -> Any:
    """Return the twin of a kernel, a ``TileDispatcher``; None for one that goes by plans.

    One serves a function with its options, however many kernel objects are made of them: wrappers that make one per
    call find the launcher's machine code again. It lives as long as the function.
    """
    options = options_key(kernel)
    with _lock:
        twins = _twins.setdefault(kernel._annotated_function.pyfunc, {})
        if options not in twins:
            twins[options] = _twin_class()(kernel._annotated_function.parameter_annotations)
        twin = twins[options]
    if twin is not None:
        kernel._tilegym_rs_twin = twin  # all that a known launch looks up
    return twin


def without_twin(kernel: Any) -> None:
    """Let a kernel's launches go by plans from now on."""
    with _lock:
        _twins.setdefault(kernel._annotated_function.pyfunc, {})[options_key(kernel)] = None
    with contextlib.suppress(AttributeError):
        del kernel._tilegym_rs_twin


def options_key(kernel: Any) -> Any:
    """Return a key of a kernel's options; those that differ by target cannot be hashed, but say all they are."""
    options = kernel._compiler_options
    try:
        hash(options)
    except TypeError:
        return repr(options)
    return options
