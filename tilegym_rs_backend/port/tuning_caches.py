# SPDX-License-Identifier: MIT
"""What TileGym remembers of tuning and of the machine, put aside for calls that must neither use it nor add to it."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
from collections.abc import Iterator
from typing import Any

_LOCK = threading.RLock()


@contextlib.contextmanager
def tuning_caches_aside(*, launches: bool) -> Iterator[None]:
    """Empty TileGym's caches, and put back afterwards what was in them.

    Some hold the only reference to a kernel object, which takes its machine code with it when it goes. So what is
    dropped is held until the GPUs that may run it have come to rest.

    Args:
        launches: whether kernels that the caches are given inside are launched on a GPU.
    """
    with _LOCK:
        kept: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        functions: list[Any] = []
        dropped: list[dict[Any, Any]] = []
        for name, module in list(sys.modules.items()):
            if not name.startswith("tilegym.") or module is None:
                continue
            for attribute, value in _attributes(module):
                if type(value) is dict and "cache" in attribute.lower():
                    kept.append((value, dict(value)))
                    value.clear()
                elif isinstance(value, functools._lru_cache_wrapper) and name.startswith("tilegym.ops.cutile"):
                    functions.append(value)
                    dropped += _results(value)
                    value.cache_clear()
        try:
            yield
        finally:
            inside = [dict(cache) for cache, _ in kept]
            for cache, content in kept:
                cache.clear()
                cache.update(content)
            for function in functions:
                inside += _results(function)
                function.cache_clear()
            if any(dropped + inside if launches else dropped):
                _finish_launches()


def _results(function: Any) -> list[dict[Any, Any]]:
    """What an ``lru_cache`` remembers, in a form that keeps it alive."""
    found = [each for each in gc.get_referents(function) if type(each) is dict and each is not vars(function)]
    return [dict(each) for each in found]


def _finish_launches() -> None:
    """Wait for every GPU that this process uses; past ``torch.cuda``, which a capture answers for."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return
    current = torch._C._cuda_getDevice()
    try:
        for device in range(torch._C._cuda_getDeviceCount()):
            if torch._C._cuda_hasPrimaryContext(device):
                torch._C._cuda_setDevice(device)
                torch._C._cuda_synchronize()
    finally:
        torch._C._cuda_setDevice(current)


def _attributes(module: Any) -> Iterator[tuple[str, Any]]:
    """What a module holds, and what the classes hold that it defines: some ops remember there."""
    for name, value in list(vars(module).items()):
        yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from list(vars(value).items())
