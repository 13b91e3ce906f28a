# SPDX-License-Identifier: MIT
"""What TileGym's wrappers ask ``torch.cuda`` at every call, answered from memory inside redirected calls.

A wrapper asks for the current stream, and many for the GPU's properties; torch goes through several Python functions
for either, a sixth of the host time of a small op. So the modules of TileGym's cuTile ops hold a view of ``torch``: its
attributes as they are at any time, but for these functions of ``torch.cuda``. Outside redirected calls, and where
somebody else answers in torch's place (a capture), those are called as they are, through one Python function more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from .machine import replaced

CONSTANT = ("get_device_properties", "get_device_capability")
"""Functions of a device, whose answers do not change while a process lives."""


def view(module: Any, **own: Any) -> Any:
    """Return what passes for a module, with its very attributes, now and later, but for those given by name."""
    members = {
        # The names are read in C, and before the dictionary; torch.compile refers to a module weakly.
        "__slots__": (*own, "__dict__", "__weakref__"),
        "__class__": property(lambda self: ModuleType),  # for isinstance: cuTile Python asks it of a kernel's globals
        "__getattr__": lambda self, name: getattr(module, name),  # modules that torch imports when asked for
    }
    found = type(f"view of {module.__name__}", (), members)()
    found.__dict__ = module.__dict__
    for name, value in own.items():
        setattr(found, name, value)
    return found


def torch_view(answering: ContextVar[Any]) -> Any:
    """Return a view of torch for wrappers; torch itself where it is built without CUDA.

    Args:
        answering: what answers the calling thread's launches (intercept.py).
    """
    import torch

    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        return torch
    remembered = {name: _remembered(name, answering) for name in CONSTANT}
    return view(torch, cuda=view(torch.cuda, current_stream=_current_stream(answering), **remembered))


def _current_stream(answering: ContextVar[Any]) -> Callable[..., Any]:
    import torch

    raw_stream, current = torch._C._cuda_getCurrentRawStream, torch._C._cuda_getDevice
    _, own = replaced(torch.cuda.current_stream)
    streams: dict[tuple[int, int], Any] = {}

    @functools.wraps(own)
    def current_stream(device: Any = None) -> Any:
        answers, there = answering.get(), torch.cuda.current_stream
        if answers is None or answers.direct is None or there is not own or device is not None:
            return there(device)
        index = current()
        key = (index, raw_stream(index))
        try:
            return streams[key]
        except KeyError:
            found = streams[key] = own()
            return found

    return current_stream


def _remembered(name: str, answering: ContextVar[Any]) -> Callable[..., Any]:
    import torch

    current = torch._C._cuda_getDevice
    _, own = replaced(getattr(torch.cuda, name))
    answered: dict[Any, Any] = {}

    @functools.wraps(own)
    def ask(device: Any = None) -> Any:
        answers, there = answering.get(), getattr(torch.cuda, name)
        if answers is None or answers.direct is None or there is not own:
            return there(device)
        key = (device, current())
        try:
            return answered[key]
        except KeyError:
            found = answered[key] = own(device)
            return found

    return ask
