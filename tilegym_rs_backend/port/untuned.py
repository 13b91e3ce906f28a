# SPDX-License-Identifier: MIT
"""Running TileGym's cuTile ops on a GPU without their tuners: for numbers, any configuration will do.

A tuner compiles and times every configuration of its list, some for half a minute each. Here it answers with the one of
the smallest tile at once; what it answered is forgotten afterwards, so that a timed run still tunes.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from .capture import patches
from .tuning_caches import tuning_caches_aside


@contextlib.contextmanager
def untuned() -> Iterator[None]:
    """Let the calling thread's tuners answer with their smallest configuration, for the block."""
    answers: dict[str, Callable[..., Any]] = {"exhaustive_search": _smallest}
    with patches.active(answers), tuning_caches_aside(launches=True):
        yield


def _smallest(configs: Sequence[Any], *_: Any, **__: Any) -> Any:
    best = SimpleNamespace(config=min(configs, key=_elements), mean_us=0.0, num_samples=0, error_margin_us=0.0)
    return SimpleNamespace(best=best, successes=[best], failures=[], summary=lambda **_: "not tuned")


def _elements(config: Any) -> int:
    """Return the elements of a configuration's tile, times its clusters: both make it slow to compile."""
    values = vars(config)
    sized = (name for name in values if re.search("SIZE|TILE|BLOCK", name) and "GROUP" not in name)
    tile = math.prod(values[name] for name in sized if type(values[name]) is int)  # some are flags
    return int(tile) * int(values.get("num_ctas") or 1)
