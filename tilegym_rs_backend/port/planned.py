# SPDX-License-Identifier: MIT
"""Launches of translations by plans of our own, for kernels whose code cuTile Python's launcher cannot be given."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from ..launch import PLANS
from ..target import target_of_device
from ..tensors import meta_of
from .arguments import pointers_of
from .arguments import with_tables
from .capture import described
from .ported import PortedKernels
from .twin import options_key


class Planned:
    """Launches on the tensors' device and torch's current stream there; safe to use from several threads."""

    def __init__(self, kernels: PortedKernels) -> None:
        self._kernels = kernels
        self._plans: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def launch(self, grid: Any, kernel: Any, args: Any) -> None:
        """Launch the translation of ``kernel``."""
        device = first_tensor(args).get_device()
        key = (kernel._annotated_function.pyfunc, options_key(kernel), tuple(grid), device, _facts(args))
        plan = self._plans.get(key)
        if plan is None:
            target = target_of_device(device)
            plan = self._kernels.bound(described(kernel, grid, tuple(args), target.arch), target)
            with self._lock:
                self._plans[key] = plan
                while len(self._plans) > PLANS:
                    self._plans.popitem(last=False)
        run, positions = plan
        given = with_tables(args)  # the tables live until the launch is made
        run(*pointers_of(given, positions))


def first_tensor(values: Any) -> Any:
    """Return the first tensor among values and what lists and tuples among them hold, None without one."""
    for value in values:
        if hasattr(value, "data_ptr"):
            return value
        if isinstance(value, (list, tuple)):
            found = first_tensor(value)
            if found is not None:
                return found
    return None


def _facts(value: Any) -> Any:
    """What of an argument decides a plan; numbers by type too, since 1 and 1.0 and True are equal."""
    if hasattr(value, "data_ptr"):
        return meta_of(value)
    return (type(value), tuple(map(_facts, value)) if isinstance(value, (list, tuple)) else value)
