# SPDX-License-Identifier: MIT
"""Functions put around TileGym's own, so that what they launch is answered by Rust; and around what those return."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable
from itertools import chain
from typing import Any

from ..target import target_of
from . import redirect as redirecting
from .intercept import answered
from .intercept import answering
from .intercept import install
from .intercept import install_new
from .machine import patching
from .planned import first_tensor

_made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""What was wrapped, under what it wraps and under itself; it keeps both alive, so an ``id`` is right while it lives."""
_kept: list[Any] = []
"""Of what was wrapped that which wraps a module's own function or class: it may be asked for at every step."""


def ported(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with its cuTile Python launches answered by Rust.

    On CUDA tensors they run there; on CPU tensors they are executed from their bytecode; under ``record`` they are
    noted. What ``function`` returns is wrapped too when it can itself be called (TileGym's ``get_swiglu()``).
    """
    install()
    return _redirected(function)


def _redirected(function: Callable[..., Any]) -> Callable[..., Any]:
    import torch
    from torch import Tensor

    gpu = redirecting.redirect()
    begin, end = answering.set, answering.reset
    current: Callable[[], int] = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)  # no C in CPU builds
    finished = frozenset((Tensor, tuple, list, type(None)))
    one_gpu: bool | None = None  # unknown before the first call

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # The way of almost every call: it takes about as long as what TileGym puts around ct.launch, and replaces it.
        first: Any = args[0] if args else next(iter(kwargs.values()), None)
        if type(first) is list and first:
            first = first[0]
        try:
            direct = first.is_cuda and (one_gpu or (one_gpu is False and first.get_device() == current()))
        except AttributeError:
            direct = False
        if not direct:
            return anywhere(args, kwargs)
        token = begin(gpu)
        try:
            result = function(*args, **kwargs)
        finally:
            end(token)
        return result if type(result) in finished else _wrapped(result)

    def anywhere(args: Any, kwargs: Any) -> Any:
        nonlocal one_gpu
        tensor = first_tensor(chain(args, kwargs.values()))
        device = None if tensor is None else tensor.get_device()
        if device is None:
            return _wrapped(answered(gpu, function, args, kwargs))
        if device < 0:
            target = target_of(tensor, function.__name__, "an argument")
            elsewhere = redirecting.Elsewhere(gpu.kernels, target, "meta" if tensor.is_meta else "cpu")
            return _wrapped(elsewhere.run(function, *args, **kwargs))
        if one_gpu is None:
            one_gpu = torch.cuda.device_count() == 1
        here = device == current()
        with contextlib.nullcontext() if here else torch.cuda.device(device):  # the current device's stream is meant
            return _wrapped(answered(gpu, function, args, kwargs))

    return call


def _wrapped(result: Any) -> Any:
    """Wrap a result that will launch later: a function, or a module class; once, while it is in use."""
    import torch

    is_class = isinstance(result, type) and issubclass(result, torch.nn.Module)
    if not is_class and (isinstance(result, (torch.nn.Module, torch.Tensor)) or not callable(result)):
        return result
    with patching:
        made = _made.get(id(result))
        if made is None:
            install_new()  # modules may have come with it
            if is_class:
                members = {"forward": _redirected(result.forward), "__module__": result.__module__}
                made = type(result.__name__, (result,), members)
            else:
                made = _redirected(result)
            _made[id(result)] = made
            _made[id(made)] = made  # an op may return what another one returned
            if _is_its_modules(result):
                _kept.append(made)
    return made


def _is_its_modules(result: Any) -> bool:
    """Whether a module holds this function or class under its name, and so keeps it alive."""
    module = sys.modules.get(getattr(result, "__module__", None) or "")
    return result is getattr(module, getattr(result, "__qualname__", ""), None)


def implementation(op: str) -> Callable[..., Any]:
    """Return TileGym's own cuTile implementation of an op, redirected.

    Raises:
        NotImplementedError: TileGym has no cuTile implementation of it.
        ToolchainError: cuda-tile is missing or of another version than the one that was tested.
    """
    from .installed import check_cuda_tile
    from .installed import import_tilegym

    check_cuda_tile()
    import_tilegym()
    dispatcher = sys.modules["tilegym.backend.dispatcher"]
    found = dispatcher._REGISTRY.get(op, {}).get("cutile")
    if found is None:
        raise NotImplementedError(f"{op} has no cuTile Python implementation in this TileGym, so none can be ported")
    return ported(found)
