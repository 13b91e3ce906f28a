# SPDX-License-Identifier: MIT
"""Long work says now and then how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

HEARTBEAT_S = 15.0


def say(text: str) -> None:
    """Write one line to standard error."""
    if sys.stderr is not None:
        print(f"tilegym-rs: {text}", file=sys.stderr, flush=True)


class Heartbeat:
    """Passes a line on if none was passed for `HEARTBEAT_S` seconds.

    Attributes:
        seconds: since the work began.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._start = self._said = time.monotonic()

    @property
    def seconds(self) -> float:
        """How long the work has taken."""
        return time.monotonic() - self._start

    def beat(self, text: str) -> None:
        """Say ``text`` if it is time."""
        now = time.monotonic()
        if now - self._said >= HEARTBEAT_S:
            self._said = now
            self._say(text)
