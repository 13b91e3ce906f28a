# SPDX-License-Identifier: MIT
"""What torch does better than numpy: half precision (by the processor's instructions; numpy takes ten times as long),
exponentials, and small matrices."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

Array = npt.NDArray[Any]


def tensor(values: Array) -> torch.Tensor:
    """Return a torch tensor over an array's memory, or over a copy where torch cannot take it as it is."""
    import torch

    if any(stride < 0 for stride in values.strides):
        values = np.ascontiguousarray(values)
    return torch.from_numpy(np.require(values, requirements="W"))


def by_torch(name: str) -> Callable[[Array], Array]:
    """Return torch's function of that name, vectorized also in float64, on arrays."""

    def function(values: Array) -> Array:
        import torch

        return np.asarray(getattr(torch, name)(tensor(values)).numpy())

    return function


def from_half(raw: Array) -> Array:
    """Return float32 from float16."""
    return np.asarray(tensor(raw).float().numpy())


def to_half(values: Array) -> Array:
    """Return float16, to the nearest, from float32; from float64 in one rounding."""
    if values.dtype != np.float32:
        return values.astype(np.float16)
    return np.asarray(tensor(values).half().numpy())


_lock = threading.Lock()
_runs = 0
_threads = 1


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep torch to one thread meanwhile.

    What a batch gives it takes microseconds: waking a second thread costs more, and on a busy machine a thousand times
    that. Several runs at a time share one change of the setting.
    """
    global _runs, _threads
    import torch

    with _lock:
        if not _runs:
            _threads = torch.get_num_threads()
            torch.set_num_threads(1)
        _runs += 1
    try:
        yield
    finally:
        with _lock:
            _runs -= 1
            if not _runs:
                torch.set_num_threads(_threads)
