# SPDX-License-Identifier: MIT
"""What TileGym remembers of tuning and of the machine, put aside for calls that must neither use it nor add to it."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Iterator
from typing import Any

_LOCK = threading.RLock()


@contextlib.contextmanager
def tuning_caches_aside() -> Iterator[None]:
    """Empty TileGym's caches, and put back afterwards what was in them.

    Some hold the only reference to a kernel object, which takes its machine code with it when it goes. So the current
    GPU comes to rest before anything is dropped.
    """
    with _LOCK:
        kept: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        machine_facts: list[Any] = []
        _finish_launches()
        for name, module in list(sys.modules.items()):
            if not name.startswith("tilegym.") or module is None:
                continue
            for attribute, value in _attributes(module):
                if type(value) is dict and "cache" in attribute.lower():
                    kept.append((value, dict(value)))
                    value.clear()
                elif isinstance(value, functools._lru_cache_wrapper) and name.startswith("tilegym.ops.cutile"):
                    machine_facts.append(value)
                    value.cache_clear()
        try:
            yield
        finally:
            _finish_launches()
            for remembered in machine_facts:
                remembered.cache_clear()
            for cache, content in kept:
                cache.clear()
                cache.update(content)


def _finish_launches() -> None:
    """Wait for the current GPU, if this process uses one; past ``torch.cuda``, which a capture answers for."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda._initialized:
        torch._C._cuda_synchronize()


def _attributes(module: Any) -> Iterator[tuple[str, Any]]:
    """What a module holds, and what the classes hold that it defines: some ops remember there."""
    for name, value in list(vars(module).items()):
        yield name, value
        if isinstance(value, type) and value.__module__ == module.__name__:
            yield from list(vars(value).items())
