# SPDX-License-Identifier: MIT
"""The one place where launches of cuTile Python kernels are taken over, for the threads and calls that ask for it.

``ct.launch`` and the tuner are replaced once, in every module that holds them, by a function that asks whether its own
thread is inside ``answered``; outside of it the original runs, so backend ``cutile`` is not affected. A gradient is
computed on a thread of autograd's, later: nodes that were made inside ``answered`` remember it for their backward.
"""

from __future__ import annotations

import contextvars
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any
from typing import Protocol

from .machine import patching
from .machine import replaced
from .torch_view import torch_view
from .twin import Unseen

answering: contextvars.ContextVar[Answers | None] = contextvars.ContextVar("tilegym_rs_answers", default=None)
"""What answers the calling thread's launches; it is read at each of them, faster than a ``threading.local`` is."""
_walked = 0  # modules, when they were last looked at
_MARK = "_tilegym_rs_intercepted"
_CTX = "_tilegym_rs_answers"


class Answers(Protocol):
    """What stands in for cuTile Python's launcher and tuner."""

    @property
    def direct(self) -> Callable[..., Any] | None:
        """cuTile Python's launcher where a kernel with a twin may go straight to it, else None."""

    def launch(self, stream: Any, grid: Any, kernel: Any, args: Any, **options: Any) -> Any:
        """See ``cuda.tile.launch``."""

    def exhaustive_search(self, search_space: Any, stream: Any, *args: Any, **options: Any) -> Any:
        """See ``cuda.tile.tune.exhaustive_search``."""

    def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``function`` with this in force, and return what it returns."""


class LaunchesItself:
    """A kernel object for ``ct.launch`` that is no cuTile Python kernel, and knows how to launch itself."""

    def launch(self, stream: Any, grid: Any, args: Any, **options: Any) -> None:
        """See ``cuda.tile.launch``."""
        raise NotImplementedError


def answered(answers: Answers, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call ``function`` while ``answers`` stand in for the calling thread's launches and tuner; may be nested."""
    token = answering.set(answers)
    try:
        return function(*args, **kwargs)
    finally:
        answering.reset(token)


def install() -> None:
    """Replace the names in every module loaded so far; call again after modules with kernels were imported.

    A capture that runs meanwhile, on whatever thread, keeps its place in front and watches what is answered here.
    """
    global _walked
    import cuda.tile as ct
    import cuda.tile.tune
    import torch

    with patching:
        count = len(sys.modules)
        present = {
            "launch": replaced(ct.launch)[1],
            "exhaustive_search": replaced(cuda.tile.tune.exhaustive_search)[1],
        }
        originals = {name: getattr(function, _MARK, function) for name, function in present.items()}
        wrappers = {
            name: function if hasattr(function, _MARK) else _wrapper(name, function)
            for name, function in present.items()
        }
        for module in list(sys.modules.values()):
            names = getattr(module, "__dict__", None)
            if not isinstance(names, dict):
                continue
            for name, original in originals.items():
                dispatcher, held = replaced(names.get(name))
                if held is original and dispatcher is None:
                    names[name] = wrappers[name]
                elif held is original:
                    dispatcher.__wrapped__ = wrappers[name]
            if str(names.get("__name__", "")).startswith("tilegym"):
                _remember_in_nodes(names)
                if "cutile" in names["__name__"].split(".") and names.get("torch") is torch:
                    names["torch"] = _torch()
        _walked = count


def install_new() -> None:
    """Install in modules that came since the last time; where none did, this costs nothing.

    Modules are counted: one that came while another one left is found at the next installation.
    """
    if len(sys.modules) != _walked:
        install()


@functools.cache
def _torch() -> Any:
    return torch_view(answering)


def launcher() -> Callable[..., Any]:
    """Return cuTile Python's own ``launch``, whatever stands in its place: TileGym puts a function of its own there."""
    from cuda.tile import _cext

    found: Callable[..., Any] = inspect.unwrap(_cext.launch)
    return found


def _wrapper(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def launch(stream: Any, grid: Any, kernel: Any, args: Any, /, **options: Any) -> Any:
        answers = answering.get()
        if answers is not None:
            if not options and answers.direct is not None:
                try:  # a known launch takes no more Python calls than backend cutile's
                    return answers.direct(stream, grid, kernel._tilegym_rs_twin, args)
                except (AttributeError, RuntimeError, Unseen):
                    pass  # `answers` meet it again, and know what to do
            return answers.launch(stream, grid, kernel, args, **options)
        if isinstance(kernel, LaunchesItself):
            return kernel.launch(stream, grid, args, **options)
        return original(stream, grid, kernel, args, **options)

    def exhaustive_search(*args: Any, **options: Any) -> Any:
        answers = answering.get()
        return (original if answers is None else answers.exhaustive_search)(*args, **options)

    call = functools.wraps(original)({"launch": launch, "exhaustive_search": exhaustive_search}[name])
    setattr(call, _MARK, original)
    return call


def _remember_in_nodes(names: dict[str, Any]) -> None:
    """Wrap the autograd functions of a module, so that a backward is answered like its forward was."""
    import torch

    for value in list(names.values()):
        if not (isinstance(value, type) and issubclass(value, torch.autograd.Function)):
            continue
        members = vars(value)
        if _MARK in members or not {"forward", "backward"} <= members.keys() or "setup_context" in members:
            continue
        value.forward = staticmethod(_forward(value.forward))  # type: ignore[method-assign]
        value.backward = staticmethod(_backward(value.backward))  # type: ignore[method-assign]
        setattr(value, _MARK, True)


def _forward(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        setattr(ctx, _CTX, answering.get())
        return original(ctx, *args, **kwargs)

    return forward


def _backward(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def backward(ctx: Any, *grads: Any) -> Any:
        answers = getattr(ctx, _CTX, None)
        if answers is None:
            return original(ctx, *grads)
        return answers.run(original, ctx, *grads)

    return backward
