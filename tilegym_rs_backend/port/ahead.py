# SPDX-License-Identifier: MIT
"""Machine code made ahead of the comparison that needs it: several tileiras at a time, launches judged in order.

What is made goes into the store; the comparison finds it there, or waits for it. Errors are the comparison's to meet.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator

from ..toolchain.limits import build_jobs

Job = Callable[[], object]


@contextlib.contextmanager
def made_ahead(jobs: Iterable[Job], workers: int | None = None) -> Iterator[None]:
    """Run jobs, in order, on threads of their own for the block; what has not begun at its end is left out.

    Args:
        jobs: independent of each other; what one raises is dropped.
        workers: threads, by default as many as compilers may run (`limits.build_jobs`).
    """
    todo = iter(jobs)
    lock = threading.Lock()
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            with lock:
                job = next(todo, None)
            if job is None:
                return
            with contextlib.suppress(Exception):
                job()

    count = build_jobs() if workers is None else workers
    threads = [threading.Thread(target=work, name=f"ahead-{index}", daemon=True) for index in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()
