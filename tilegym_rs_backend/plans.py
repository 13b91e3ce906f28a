# SPDX-License-Identifier: MIT
"""The caches that ops keep their launches in, and what is not to be kept."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any
from typing import TypeVar

from .launch import PLANS

R = TypeVar("R")


class _NotKept(Exception):
    """Carries a result past the cache: lru_cache keeps nothing of a call that raises."""

    def __init__(self, result: Any) -> None:
        self.result = result


_kept: contextvars.ContextVar[bool] = contextvars.ContextVar("tilegym_rs_plan_kept", default=True)
_caches: list[Callable[[], None]] = []


def planned(function: Callable[..., R]) -> Callable[..., R]:
    """Keep a function's results by its arguments, the `PLANS` used last, unless `provisional` was called in it."""

    @functools.lru_cache(maxsize=PLANS)
    def cached(*key: Any) -> R:
        token = _kept.set(True)
        try:
            result = function(*key)
            if not _kept.get():
                raise _NotKept(result)
            return result
        finally:
            _kept.reset(token)

    @functools.wraps(function)
    def call(*key: Any) -> R:
        try:
            return cached(*key)
        except _NotKept as one:
            result: R = one.result
            return result

    _caches.append(cached.cache_clear)
    return call


def provisional() -> None:
    """Say that what is being planned holds for this call alone: another may choose better."""
    _kept.set(False)


def forget_plans() -> None:
    """Have every op plan anew, since a choice has changed."""
    for clear in _caches:
        clear()
