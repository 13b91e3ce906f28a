# SPDX-License-Identifier: MIT
"""Launches of translations by plans of our own, for kernels whose code cuTile Python's launcher cannot be given."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ..launch import PLANS
from ..target import target_of_device
from .arguments import table_of
from .capture import described
from .ported import PortedKernels
from .twin import options_key

Plan = tuple[Callable[..., None], tuple[int, ...]]


class Planned:
    """Launches on the tensors' device and torch's current stream there; safe to use from several threads."""

    def __init__(self, kernels: PortedKernels) -> None:
        from torch import Tensor

        self._kernels = kernels
        self._tensor = Tensor
        self._plans: OrderedDict[Any, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def launch(self, grid: Any, kernel: Any, args: Any) -> None:
        """Launch the translation of ``kernel``.

        What decides the plan is read off the arguments in one pass.
        """
        key = [kernel._annotated_function.pyfunc, options_key(kernel), *grid]
        addresses = []
        tables: Any = None
        for arg in args:
            if isinstance(arg, self._tensor):
                address = arg.data_ptr()
                key += (arg.shape, arg.stride(), arg.dtype, arg.get_device(), address & 15 == 0)
            elif isinstance(arg, list):
                table = table_of(arg)
                tables = (tables, table)  # they live until the launch is made
                address = table.data_ptr()
                key.append(_key(arg))
            else:
                address = 0
                key.append(_key(arg) if isinstance(arg, tuple) else (type(arg), arg))
            addresses.append(address)
        known = tuple(key)
        plan = self._plans.get(known)
        if plan is None:
            plan = self._planned(known, kernel, grid, tuple(args))
        run, positions = plan
        run(*[addresses[index] for index in positions])

    def _planned(self, key: Any, kernel: Any, grid: Any, args: tuple[Any, ...]) -> Plan:
        target = target_of_device(first_tensor(args).get_device())
        plan = self._kernels.bound(described(kernel, grid, args, target.arch), target)
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > PLANS:
                self._plans.popitem(last=False)
        return plan


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


def _key(value: Any) -> Any:
    """What of an argument decides a plan; numbers by type too, since 1 and 1.0 and True are equal."""
    if hasattr(value, "data_ptr"):
        return (value.shape, value.stride(), value.dtype, value.data_ptr() % 16 == 0, value.get_device())
    return (type(value), tuple(map(_key, value)) if isinstance(value, (list, tuple)) else value)
